//! What the tenancy of a hub refuses is never placed: that is what is said then, not where it would go.

use super::{args, facts, hub};
use crate::{
    cli::{explain::read, format::Format},
    tenancy::{AllowList, Rules, Tenancy},
};
use jiff::Timestamp;
use roundhouse_api::names::annotation::ALLOW_KINDS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A role for the whole cluster.
fn application(placement: &Value) -> Value {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "reader"}, "rules": []});
    json!({
        "components": [{"name": "roles", "type": "k8s-objects", "properties": {"objects": [role]}}],
        "workflow": {"steps": [{"name": "all", "type": "deploy", "properties": placement}]}})
}

fn explained(placement: &Value, allowed: &[&str]) -> Result<(), String> {
    let kinds = BTreeMap::from([(ALLOW_KINDS.to_owned(), allowed.join(","))]);
    let mut snapshot = hub(&[facts("c1", &[])]);
    snapshot.govern(Rules {
        tenancy: Tenancy::Namespace,
        allowed: BTreeMap::from([("default".to_owned(), AllowList::of(&kinds))]),
    });
    let spec = application(placement);
    let subject = read::of(&args(Format::Table), &spec, &snapshot, Timestamp::UNIX_EPOCH);
    subject.map(drop).map_err(|failure| failure.to_string())
}

#[test]
fn what_tenancy_refuses_is_not_explained() {
    let refused = "error: application default/checkout is not accepted [E-INVALID]\n\
         cause: spec.components[0].properties.objects[0].kind: ClusterRole reader is not known to have a namespace, \
         and the tenancy of this hub admits objects in namespace \"default\" only; an administrator may add \
         ClusterRole.rbac.authorization.k8s.io to the annotation roundhouse.dev/allow-kinds of Namespace default\n\
         try:   mend what is named; what runs of it stays as it is until then";
    // Nor is it waited for a Placement: the hub looks at the content first.
    for placement in [
        json!({"placement": [{}]}),
        json!({"placementRef": {"name": "none"}}),
    ] {
        let text = explained(&placement, &[]).unwrap_err();
        assert_eq!(text, refused);
    }
    let allowed = ["ClusterRole.rbac.authorization.k8s.io"];
    assert_eq!(explained(&json!({"placement": [{}]}), &allowed), Ok(()));
}
