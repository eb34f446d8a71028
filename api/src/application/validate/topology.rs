//! KubeVela's `topology` policy: which clusters get everything. It becomes one rule without a share.

use super::{
    node::{Node, Object, Shape},
    placement,
};
use crate::placement::{ClusterSelector, PlacementSpec, Rule};

const TOPOLOGY: Shape = Shape {
    known: &[&[
        "clusters",
        "clusterLabelSelector",
        "clusterSelector",
        "allowEmpty",
    ]],
    refused: &[(
        "namespace",
        "namespace is not supported: set metadata.namespace in the manifests, or deliver from an Application in that namespace",
    )],
};
const SELECTORS: [&str; 2] = ["clusterLabelSelector", "clusterSelector"];

/// Reads the properties of a topology policy; its rule has the name of the policy.
pub(super) fn read(policy: &Object<'_>, name: Option<&str>) -> Option<PlacementSpec> {
    let what = "list clusters, or set clusterLabelSelector ({} selects every cluster)";
    let object = policy.required("properties", what)?.object(&TOPOLOGY)?;
    let mut selectors = SELECTORS.iter().filter_map(|name| object.optional(name));
    let selector = selectors.next();
    if let Some(second) = selectors.next() {
        second.refuse("is the old name of clusterLabelSelector, which is set as well: leave this one out");
    }
    let clusters = object.optional("clusters");
    match (&clusters, &selector) {
        (Some(_), Some(selector)) => {
            selector.refuse("cannot be used beside clusters, which would be taken alone: keep one of them");
        }
        (None, None) => object.refuse(format!(
            "names no clusters, which in KubeVela means the hub itself; nothing is delivered to the hub here: {what}"
        )),
        _ => {}
    }
    let rule = Rule {
        name: name.map(str::to_owned),
        cluster_selector: selector.map(|node| equality(&node)),
        clusters: clusters.map(|node| placement::clusters(&node, "topology")),
        allow_empty: object
            .optional("allowEmpty")
            .and_then(|node| node.boolean())
            .unwrap_or_default(),
        ..Rule::default()
    };
    Some(PlacementSpec {
        placement: vec![rule],
        ..PlacementSpec::default()
    })
}

fn equality(node: &Node<'_>) -> ClusterSelector {
    let labels = node.entries().unwrap_or_default().into_iter();
    ClusterSelector::equality(labels.filter_map(|(key, value)| Some((key, value.string()?))))
}
