//! `--inventory F`: the clusters of a fleet from a file, where no hub is asked.

use super::{
    Failure,
    documents::{self, Document, Place},
    metadata,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResourceExt, Resource, ResourceExt};
use roundhouse_api::{
    cluster::{AVAILABLE, Cluster, ClusterStatus, JOINED},
    names::{self, ClusterName},
    quantity,
};
use roundhouse_apiserver::Structure;
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// Reads the clusters of a file, sorted by name: a YAML or JSON list of Cluster objects, the documents of a file, or
/// what `kubectl get clusters -o yaml` prints. A list may be empty: a fleet without clusters.
///
/// A Cluster whose status has no conditions (or that has no status at all) counts as joined and available, and as
/// accepted unless it says `accepted: false`; one with conditions is what it says.
///
/// # Errors
/// The file cannot be read; an entry is no Cluster, has a field that Clusters do not have, a value that its field does not
/// take, a name that cannot be one or is that of another one, a label or taint that Kubernetes does not take, or a capacity
/// that is no quantity. The message names the entry and its place, and the field.
pub(super) fn read(path: &Path) -> Result<Vec<Cluster>, Failure> {
    clusters(documents::read_list(path)?)
}

/// The same, of documents that were read already.
///
/// # Errors
/// As [`read`].
pub(super) fn clusters(documents: Vec<Document>) -> Result<Vec<Cluster>, Failure> {
    let definition = Cluster::crd();
    let structure = documents::structure(&definition);
    let mut clusters: BTreeMap<String, (Cluster, Place)> = BTreeMap::new();
    for Document { value, place } in documents {
        let unknown = documents::unknown_fields(&value, &definition);
        if let Some(first) = unknown.first() {
            return Err(refused(&place, format!("a Cluster has no field {first}")));
        }
        let cluster = cluster(value, &structure).map_err(|reason| refused(&place, reason))?;
        let name = cluster.name_any();
        if let Some((_, former)) = clusters.get(&name) {
            let reason = format!("cluster {name} is there twice: it is at {former} too");
            return Err(refused(&place, reason));
        }
        clusters.insert(name, (cluster, place));
    }
    Ok(clusters.into_values().map(|(cluster, _)| cluster).collect())
}

fn refused(place: &Place, reason: String) -> Failure {
    Failure::new("E-INVENTORY", format!("{place} is no cluster of an inventory"))
        .because(reason)
        .advise("a list of Cluster objects, such as `- metadata: {name: c1, labels: {region: east}}`; kubectl get clusters -o yaml prints one")
}

fn cluster(mut value: Value, structure: &Structure) -> Result<Cluster, String> {
    let Some(map) = value.as_object_mut() else {
        return Err("it is no object".to_owned());
    };
    let (api_version, kind) = (Cluster::api_version(&()), Cluster::kind(&()));
    for (field, expected) in [("apiVersion", api_version), ("kind", kind)] {
        let found = map.entry(field).or_insert_with(|| Value::from(expected.as_ref()));
        if *found != *expected {
            return Err(format!("{field} is {found}: use {expected}"));
        }
    }
    let spec = map.entry("spec").or_insert_with(|| serde_json::json!({}));
    let says_accepted = spec.get("accepted").is_some();
    if map.get("status").is_some_and(Value::is_null) {
        map.remove("status");
    }
    for (_, pointer) in QUANTITIES {
        if let Some(Value::Object(quantities)) = value.pointer_mut(pointer) {
            quantities.values_mut().for_each(as_quantity);
        }
    }
    let name = match value.pointer("/metadata/name") {
        None | Some(Value::Null) => return Err("it has no metadata.name: give it one".to_owned()),
        Some(Value::String(name)) => ClusterName::new(name.as_str()).map_err(|error| error.to_string())?,
        Some(other) => return Err(format!("metadata.name {}", metadata::no_text(other))),
    };
    let mut cluster = checked(value, structure).map_err(|why| format!("cluster {name}: {why}"))?;
    let status = cluster.status.get_or_insert_default();
    if status.conditions.is_empty() {
        alive(status);
        cluster.spec.accepted |= !says_accepted;
    }
    Ok(cluster)
}

/// Where a Cluster has quantities, as people write it and as a JSON pointer.
const QUANTITIES: [(&str, &str); 2] = [
    ("status.capacity", "/status/capacity"),
    ("status.allocatable", "/status/allocatable"),
];

/// What each field takes is looked at before all of it is read, so that what is wrong has its path.
fn checked(value: Value, structure: &Structure) -> Result<Cluster, String> {
    metadata::is_legal(&value)?;
    quantities_are_read(&value)?;
    if let Some(wrong) = structure.wrong(&value).into_iter().next() {
        return Err(format!("{}: {}", wrong.field, wrong.message));
    }
    let cluster: Cluster = serde_json::from_value(value).map_err(|error| error.to_string())?;
    taints_are_legal(&cluster)?;
    Ok(cluster)
}

/// A capacity that does not read would bound nothing, and a weight that does not read is 0.
fn quantities_are_read(value: &Value) -> Result<(), String> {
    for (path, pointer) in QUANTITIES {
        let entries = value.pointer(pointer).and_then(Value::as_object);
        let reads = |text: &str| !text.starts_with('-') && quantity::whole(text).is_some();
        let mut texts = entries.into_iter().flatten();
        // What is no text at all is refused by its type.
        let wrong = texts.find(|(_, value)| value.as_str().is_some_and(|text| !reads(text)));
        if let Some((key, value)) = wrong {
            return Err(format!(
                "{path}.{key} is {value}, not a quantity of 0 or more: write a number such as 10, 1k or 2500m"
            ));
        }
    }
    Ok(())
}

fn taints_are_legal(cluster: &Cluster) -> Result<(), String> {
    let of_status = cluster.status.as_ref().map(|status| &status.taints[..]);
    for (field, taints) in [
        ("spec.taints", &cluster.spec.taints[..]),
        ("status.taints", of_status.unwrap_or_default()),
    ] {
        for (index, taint) in taints.iter().enumerate() {
            let at = format!("{field}[{index}]");
            if !names::is_qualified(&taint.key) {
                let rule = names::QUALIFIED;
                return Err(format!("{at}.key {:?} is not legal: use {rule}", taint.key));
            }
            if let Some(value) = taint.value.as_ref().filter(|value| !names::is_label_value(value)) {
                let rule = names::LABEL_VALUE;
                return Err(format!("{at}.value {value:?} is not legal: use {rule}"));
            }
        }
    }
    Ok(())
}

/// `10` is what people write for `"10"`.
fn as_quantity(value: &mut Value) {
    if value.is_number() {
        *value = Value::from(value.to_string());
    }
}

/// Joined and available.
pub(super) fn alive(status: &mut ClusterStatus) {
    status.conditions = [JOINED, AVAILABLE]
        .map(|type_| Condition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            reason: "Inventory".to_owned(),
            message: String::new(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        })
        .into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::condition;

    fn of(text: &str) -> Result<Vec<Cluster>, String> {
        let documents = documents::split("fleet.yaml", text).map_err(|failure| failure.to_string())?;
        clusters(documents).map_err(|failure| failure.to_string())
    }

    fn facts(cluster: &Cluster) -> (String, bool, bool, bool) {
        let conditions = cluster
            .status
            .as_ref()
            .map_or(&[][..], |status| &status.conditions);
        let is = |type_| condition::is_true(conditions, type_);
        (
            cluster.name_any(),
            cluster.spec.accepted,
            is(JOINED),
            is(AVAILABLE),
        )
    }

    #[test]
    fn a_cluster_without_status_is_there_and_one_with_conditions_is_what_it_says() {
        let text = "
- metadata: {name: plain, labels: {region: east}}
- {apiVersion: roundhouse.dev/v1alpha1, kind: Cluster, metadata: {name: null-status}, status: null}
- metadata: {name: roomy}
  status: {capacity: {replicas: 10}}
- metadata: {name: refused}
  spec: {accepted: false}
- metadata: {name: silent}
  spec: {accepted: true}
  status: {conditions: [{type: Joined, status: 'True', reason: r, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]}
- metadata: {name: unasked}
  status: {conditions: [{type: Joined, status: 'False', reason: r, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]}
";
        let clusters = of(text).unwrap();
        let facts: Vec<_> = clusters.iter().map(facts).collect();
        let expected = [
            ("null-status", true, true, true),
            ("plain", true, true, true),
            ("refused", false, true, true),
            ("roomy", true, true, true),
            ("silent", true, true, false),
            ("unasked", false, false, false),
        ];
        assert_eq!(facts, expected.map(|(name, a, j, v)| (name.to_owned(), a, j, v)));
        assert_eq!(clusters[3].status.as_ref().unwrap().capacity["replicas"], "10");
        assert_eq!(clusters[1].labels()["region"], "east");
    }

    #[test]
    fn every_form_of_a_list_is_read() {
        for text in [
            "- metadata: {name: a}\n- metadata: {name: b}\n",
            "metadata: {name: b}\n---\nmetadata: {name: a}\n",
            r#"{"apiVersion": "v1", "kind": "List", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}"#,
            r#"[{"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}]"#,
        ] {
            let names: Vec<String> = of(text).unwrap().iter().map(ResourceExt::name_any).collect();
            assert_eq!(names, ["a", "b"], "{text}");
        }
    }

    #[test]
    fn what_is_refused_is_named_with_its_place() {
        let place = "error: fleet.yaml, document 1 (line 1), item 2 is no cluster of an inventory [E-INVENTORY]\ncause: ";
        for (entry, cause) in [
            (
                "metadata: {name: a}",
                "cluster a is there twice: it is at fleet.yaml, document 1 (line 1), item 1 too",
            ),
            ("metadata: {name: A_b}", "cluster name \"A_b\" is not a DNS label"),
            ("metadata: {}", "it has no metadata.name: give it one"),
            (
                "metadata: {name: 7}",
                "metadata.name is 7, not a text: put it in quotes\n",
            ),
            ("kind: Node", "kind is \"Node\": use Cluster"),
            (
                "{metadata: {name: b}, spec: {taint: []}}",
                "a Cluster has no field spec.taint (known: accepted, acceptedKey, autoAccept, joinUntil, leave, serial, taints)",
            ),
            (
                "{metadata: {name: b}, spec: {taints: [{key: a, effects: NoSchedule}]}}",
                "a Cluster has no field spec.taints[0].effects (known: ",
            ),
            (
                "{metadata: {name: b}, labels: {a: b}}",
                "a Cluster has no field labels (known: ",
            ),
            (
                "metadata: {name: b, labels: {region: east, tier: 1}}",
                "cluster b: metadata.labels: label tier is 1, not a text: put it in quotes\n",
            ),
            (
                "metadata: {name: b, annotations: {checked: true}}",
                "cluster b: metadata.annotations: annotation checked is true, not a text: put it in quotes\n",
            ),
            (
                "metadata: {name: b, labels: {region: not valid!}}",
                "cluster b: metadata.labels: label region has no legal value, \"not valid!\": use at most 63 letters, ",
            ),
            (
                "metadata: {name: b, labels: {bad key: east}}",
                "cluster b: metadata.labels: label \"bad key\" has no legal key: use an optional DNS prefix and '/', then 1 to 63 ",
            ),
            (
                "metadata: {name: b, annotations: {bad key: any text!}}",
                "cluster b: metadata.annotations: annotation \"bad key\" has no legal key: use an optional DNS prefix ",
            ),
            (
                "metadata: {name: b, labels: [east]}",
                "cluster b: metadata.labels: invalid type: sequence, expected a map\n",
            ),
            (
                "metadata: {name: b, lables: {region: east}}",
                "cluster b: it has no field metadata.lables (known: annotations, ",
            ),
            (
                "{metadata: {name: b}, spec: {taints: [{key: gpu, effect: NoWay}]}}",
                "cluster b: spec.taints[0].effect: Unsupported value: \"NoWay\": supported values: \"NoSchedule\", \"NoExecute\"\n",
            ),
            (
                "{metadata: {name: b}, spec: {taints: [{key: gpu}]}}",
                "cluster b: spec.taints[0].effect: Required value\n",
            ),
            (
                "{metadata: {name: b}, spec: {accepted: 1}}",
                "cluster b: spec.accepted: Invalid value: \"integer\": spec.accepted in body must be of type boolean: ",
            ),
            (
                "{metadata: {name: b}, spec: {taints: [{key: gpu x, effect: NoExecute}]}}",
                "cluster b: spec.taints[0].key \"gpu x\" is not legal: use an optional DNS prefix ",
            ),
            (
                "{metadata: {name: b}, status: {taints: [{key: gpu, value: a b, effect: NoExecute}]}}",
                "cluster b: status.taints[0].value \"a b\" is not legal: use at most 63 letters, ",
            ),
            ("east", "it is no object"),
            (
                "{metadata: {name: b}, status: {capacity: {replicas: many}}}",
                "cluster b: status.capacity.replicas is \"many\", not a quantity of 0 or more: write a number such as 10, 1k or 2500m\n",
            ),
            (
                "{metadata: {name: b}, status: {capacity: {replicas: -1}}}",
                "cluster b: status.capacity.replicas is \"-1\", not a quantity of 0 or more: write a number such as 10, 1k or 2500m\n",
            ),
            (
                "{metadata: {name: b}, status: {allocatable: {cpu: '4', memory: 1GB}}}",
                "cluster b: status.allocatable.memory is \"1GB\", not a quantity of 0 or more: write a number such as 10, 1k or 2500m\n",
            ),
        ] {
            let failure = of(&format!("- metadata: {{name: a}}\n- {entry}\n")).unwrap_err();
            let start = format!("{place}{cause}");
            assert!(failure.starts_with(&start), "{failure}\n is not\n{start}");
        }
    }

    #[test]
    fn a_fleet_may_have_no_cluster_but_a_file_has_to_say_so() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("fleet.yaml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            super::read(&file).map_err(|failure| failure.to_string())
        };
        for text in [
            "[]",
            "# none\n---\n[]\n",
            "apiVersion: v1\nkind: List\nitems: []\n",
        ] {
            assert!(read(text).unwrap().is_empty(), "{text}");
        }
        for text in ["", "# none\n---\n", "null"] {
            let failure = read(text).unwrap_err();
            assert!(failure.contains("has no document [E-INPUT]"), "{text}: {failure}");
        }
    }

    #[test]
    fn ten_thousand_clusters_are_read_whole() {
        let text: String = (0..10_000)
            .map(|n| {
                format!(
                    "- metadata:\n    name: c{n}\n    labels: {{region: r{}}}\n",
                    n % 7
                )
            })
            .collect();
        assert_eq!(of(&text).unwrap().len(), 10_000);
    }
}
