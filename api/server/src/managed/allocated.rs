//! What the server adds to an object of its own accord, beyond defaults.

use roundhouse_patch::managed::{FieldSet, Step};
use serde_json::Value;

use crate::kinds::Resource;

/// Fields that the server fills in if a new object leaves them out, and that no field manager owns: addresses of a
/// Service, the finalizer of a Namespace, the selector of a Job and the labels that go with it. Defaults, unlike these, are the creator's.
pub(crate) fn allocated(resource: &Resource, sent: &Value) -> FieldSet {
    let paths: &[&[&str]] = match (&*resource.group, &*resource.kind) {
        ("", "Service") => &[
            &["spec", "clusterIP"],
            &["spec", "clusterIPs"],
            &["spec", "ipFamilies"],
            &["spec", "ipFamilyPolicy"],
        ],
        ("", "Namespace") => &[&["spec", "finalizers"]],
        ("batch", "Job") => &[
            &["spec", "selector"],
            &["spec", "template", "metadata"],
            &["spec", "template", "metadata", "labels"],
            &[
                "spec",
                "template",
                "metadata",
                "labels",
                "batch.kubernetes.io/controller-uid",
            ],
            &[
                "spec",
                "template",
                "metadata",
                "labels",
                "batch.kubernetes.io/job-name",
            ],
            &["spec", "template", "metadata", "labels", "controller-uid"],
            &["spec", "template", "metadata", "labels", "job-name"],
        ],
        _ => &[],
    };
    let mut set = FieldSet::default();
    for path in paths {
        if crate::object::at(sent, path).is_none() {
            let steps: Vec<Step> = path.iter().map(|name| Step::field(name)).collect();
            set.insert(&steps);
        }
    }
    set
}
