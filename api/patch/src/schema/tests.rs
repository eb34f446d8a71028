use std::collections::BTreeSet;

use super::*;

/// Every node reachable from a kind, each once.
fn nodes() -> Vec<&'static Node> {
    let mut seen = BTreeSet::new();
    let mut queue: Vec<&'static Node> = kinds::KINDS.iter().map(|(_, node)| *node).collect();
    let mut nodes = Vec::new();
    while let Some(node) = queue.pop() {
        if seen.insert(std::ptr::from_ref(node) as usize) {
            queue.extend(node.fields.iter().filter_map(|field| field.child));
            queue.extend(node.values);
            nodes.push(node);
        }
    }
    nodes
}

#[test]
fn kinds_are_sorted_and_unique() {
    assert!(kinds::KINDS.is_sorted_by(|(left, _), (right, _)| left < right));
}

#[test]
fn fields_are_sorted_and_unique() {
    for node in nodes() {
        assert!(
            node.fields.is_sorted_by(|left, right| left.name < right.name),
            "{node:?}"
        );
    }
}

#[test]
fn a_key_belongs_to_a_list_that_merges_and_children_to_lists_with_a_key() {
    for field in nodes().iter().flat_map(|node| node.fields) {
        assert!(field.merge_key.is_none() || field.strategy.merges(), "{field:?}");
        if field.strategy.merges() && field.merge_key.is_none() {
            assert!(field.child.is_none(), "a set holds scalars: {field:?}");
        }
        let states_something = field.strategy != Strategy::Default || field.child.is_some();
        assert!(states_something, "{field:?}");
    }
}

#[test]
fn no_node_is_empty_and_every_kind_has_object_metadata() {
    assert!(
        nodes()
            .iter()
            .all(|node| !node.fields.is_empty() || node.values.is_some())
    );
    for (gvk, node) in kinds::KINDS {
        let metadata = node.field("metadata").and_then(|field| field.child).unwrap();
        let finalizers = metadata.field("finalizers").unwrap();
        assert!(
            finalizers.strategy == Strategy::Merge && finalizers.merge_key.is_none(),
            "{gvk:?}"
        );
        assert_eq!(
            metadata.field("ownerReferences").unwrap().merge_key,
            Some("uid"),
            "{gvk:?}"
        );
    }
}

/// Facts of Kubernetes' published OpenAPI, by path from a kind.
#[test]
fn published_facts() {
    let facts = [
        ("v1", "Pod", "spec.containers", "merge name"),
        ("v1", "Pod", "spec.containers.ports", "merge containerPort"),
        ("v1", "Pod", "spec.containers.env", "merge name"),
        ("v1", "Pod", "spec.containers.envFrom", "-"),
        ("v1", "Pod", "spec.containers.volumeMounts", "merge mountPath"),
        ("v1", "Pod", "spec.containers.volumeDevices", "merge devicePath"),
        ("v1", "Pod", "spec.containers.resources.claims", "-"),
        ("v1", "Pod", "spec.tolerations", "-"),
        ("v1", "Pod", "spec.hostAliases", "merge ip"),
        ("v1", "Pod", "spec.volumes", "merge,retainKeys name"),
        ("v1", "Pod", "spec.volumes.projected.sources", "-"),
        ("v1", "Pod", "spec.topologySpreadConstraints", "merge topologyKey"),
        ("v1", "Pod", "spec.resourceClaims", "merge,retainKeys name"),
        ("v1", "Node", "spec.podCIDRs", "merge"),
        ("v1", "Service", "spec.ports", "merge port"),
        ("v1", "Service", "spec.loadBalancerSourceRanges", "-"),
        ("v1", "ServiceAccount", "secrets", "merge name"),
        ("v1", "ServiceAccount", "imagePullSecrets", "-"),
        ("apps/v1", "Deployment", "spec.strategy", "retainKeys"),
        ("apps/v1", "Deployment", "status.conditions", "merge type"),
        ("apps/v1", "StatefulSet", "spec.updateStrategy", "-"),
        ("apps/v1", "StatefulSet", "spec.volumeClaimTemplates", "-"),
        (
            "batch/v1",
            "CronJob",
            "spec.jobTemplate.spec.template.spec.initContainers",
            "merge name",
        ),
        (
            "batch/v1",
            "CronJob",
            "spec.jobTemplate.metadata.finalizers",
            "merge",
        ),
        ("policy/v1", "PodDisruptionBudget", "spec.selector", "replace"),
        ("networking.k8s.io/v1", "Ingress", "spec.rules", "-"),
        ("networking.k8s.io/v1", "NetworkPolicy", "spec.ingress", "-"),
        ("rbac.authorization.k8s.io/v1", "Role", "rules", "-"),
        (
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            "webhooks",
            "merge name",
        ),
        (
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
            "webhooks.matchConditions",
            "merge name",
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "status.conditions",
            "-",
        ),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            "status.conditions",
            "merge type",
        ),
        ("storage.k8s.io/v1", "CSINode", "spec.drivers", "merge name"),
        (
            "resource.k8s.io/v1",
            "ResourceClaim",
            "status.reservedFor",
            "merge uid",
        ),
        (
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            "status.conditions",
            "-",
        ),
    ];
    for (api_version, kind, path, want) in facts {
        let mut node = lookup(api_version, kind);
        assert!(node.is_some(), "{api_version} {kind}");
        let mut got = "-".to_owned();
        for name in path.split('.') {
            let field = node.and_then(|node| node.field(name));
            got = field.map_or_else(|| "-".to_owned(), describe);
            node = field.and_then(|field| field.child);
        }
        assert_eq!(got, want, "{kind} {path}");
    }
}

fn describe(field: &Field) -> String {
    let strategy = match field.strategy {
        Strategy::Default => "-",
        Strategy::Merge => "merge",
        Strategy::Replace => "replace",
        Strategy::RetainKeys => "retainKeys",
        Strategy::MergeRetainKeys => "merge,retainKeys",
    };
    [Some(strategy), field.merge_key]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn custom_kinds_are_unknown() {
    assert!(lookup("example.dev/v1", "Widget").is_none());
    assert!(lookup("apps/v1", "CloneSet").is_none());
    assert!(lookup("example.dev/v1", "Deployment").is_none());
}
