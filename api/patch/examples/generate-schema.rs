//! Writes `src/schema/kinds.rs` and `src/managed/table.rs`: `cargo run -p roundhouse-patch --example generate-schema && cargo fmt -p roundhouse-patch`.
//! With `--check` it writes nothing and fails if a checked-in table would change.
//!
//! Source: the Rust types that `k8s-openapi` generates from Kubernetes' published OpenAPI, found with
//! `cargo metadata`. Its merge code states a key for every list that merges, by strategic merge or by server-side
//! apply. Which of the two, and the strategies other than `merge`, it does not tell: they are the facts below, from
//! `x-kubernetes-patch-strategy` in that OpenAPI.

#[path = "generate-schema/emit.rs"]
mod emit;
#[path = "generate-schema/source.rs"]
mod source;
#[path = "generate-schema/topology.rs"]
mod topology;

use std::{collections::BTreeMap, error::Error, fs, path::Path};

use source::{ListKind, Struct};

/// Lists with a key for server-side apply only; a strategic merge replaces them. Every other list with a key merges.
const APPLY_ONLY: &[(&str, &str)] = &[
    ("AllocatedDeviceStatus", "conditions"),
    ("CertificateSigningRequestStatus", "conditions"),
    ("CustomResourceDefinitionStatus", "conditions"),
    ("DeviceTaintRuleStatus", "conditions"),
    ("ResourceClaimStatus", "devices"),
    ("ResourceRequirements", "claims"),
    ("ResourceStatus", "resources"),
    ("StatefulSetSpec", "volumeClaimTemplates"),
    ("StorageVersionStatus", "conditions"),
    ("StorageVersionStatus", "storageVersions"),
    ("ValidatingAdmissionPolicyStatus", "conditions"),
    ("WorkloadSpec", "podGroupTemplates"),
    ("WorkloadSpec", "podGroups"),
];

/// Lists of scalars with strategy `merge`; all other sets are sets for server-side apply only.
const MERGING_SETS: &[(&str, &str)] = &[("NodeSpec", "podCIDRs"), ("ObjectMeta", "finalizers")];

/// Strategy `retainKeys`; of lists, `merge,retainKeys`.
const RETAIN_KEYS: &[(&str, &str)] = &[
    ("DeploymentSpec", "strategy"),
    ("PodGroupSpec", "resourceClaims"),
    ("PodGroupStatus", "resourceClaimStatuses"),
    ("PodGroupTemplate", "resourceClaims"),
    ("PodSpec", "resourceClaims"),
    ("PodSpec", "volumes"),
    ("PodStatus", "resourceClaimStatuses"),
];

/// Strategy `replace`, of objects.
const REPLACE: &[(&str, &str)] = &[("PodDisruptionBudgetSpec", "selector")];

fn main() -> Result<(), Box<dyn Error>> {
    let structs = source::read()?;
    facts_hold(&structs)?;
    topology::facts_hold(&structs)?;
    write("src/schema/kinds.rs", &emit::table(&structs))?;
    write("src/managed/table.rs", &topology::table(&structs))
}

/// Writes a table or, with `--check`, compares it.
fn write(file: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if !std::env::args().any(|argument| argument == "--check") {
        return Ok(fs::write(file, table)?);
    }
    // rustfmt breaks lines and sets commas, nothing else, in what this program writes.
    let plain = |text: &str| text.replace(',', "").split_whitespace().collect::<String>();
    if plain(&fs::read_to_string(&file)?) == plain(table) {
        return Ok(());
    }
    Err(format!("{} is stale: run this program without --check", file.display()).into())
}

/// What the facts and the source say about one field.
enum Rule {
    Plain,
    MergeByKey(String),
    MergeByKeyRetaining(String),
    MergeSet,
    Retain,
    Replace,
}

fn rule(name: &str, field: &source::Field) -> Rule {
    let stated = |facts: &[(&str, &str)]| facts.contains(&(name, field.json.as_str()));
    match &field.list {
        Some(ListKind::Map(_)) if stated(APPLY_ONLY) => Rule::Plain,
        Some(ListKind::Map(key)) if stated(RETAIN_KEYS) => Rule::MergeByKeyRetaining(key.clone()),
        Some(ListKind::Map(key)) => Rule::MergeByKey(key.clone()),
        Some(ListKind::Set) if stated(MERGING_SETS) => Rule::MergeSet,
        Some(ListKind::Set) => Rule::Plain,
        None if stated(RETAIN_KEYS) => Rule::Retain,
        None if stated(REPLACE) => Rule::Replace,
        None => Rule::Plain,
    }
}

/// Refuses facts about fields that are not there, and keys that the elements do not have.
fn facts_hold(structs: &BTreeMap<String, Struct>) -> Result<(), Box<dyn Error>> {
    for (name, field) in [APPLY_ONLY, MERGING_SETS, RETAIN_KEYS, REPLACE].concat() {
        let known = structs
            .values()
            .any(|this| this.name == name && this.fields.iter().any(|f| f.json == field));
        if !known {
            return Err(format!("a fact is about {name}.{field}, which does not exist").into());
        }
    }
    for (path, this) in structs {
        for field in &this.fields {
            if let Rule::MergeByKey(key) | Rule::MergeByKeyRetaining(key) = rule(&this.name, field) {
                let element = field.child.as_ref().and_then(|child| structs.get(child));
                if !element.is_some_and(|element| element.fields.iter().any(|field| field.json == key)) {
                    return Err(format!("{path}.{}: its elements have no field {key}", field.json).into());
                }
            }
        }
    }
    Ok(())
}
