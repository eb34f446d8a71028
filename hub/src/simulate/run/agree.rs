//! Whether the clusters have what their Bundles say, whatever anybody says of it.

use super::{Check, Look, objects::resource};
use crate::simulate::Fleet;
use kube::{Api, ResourceExt, api::DynamicObject};
use roundhouse_api::{bundle::Bundle, cluster::Cluster, names::annotation};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// As many differences are named.
const NAMED: usize = 8;

/// Where an object is: `apiVersion`, kind, namespace, name.
type Place = [String; 4];

/// Every manifest of a Bundle is in its cluster, with all that it says; nothing else is there that an agent has made. Nor is
/// anything in a cluster that was `emptied` when it left.
pub fn agreement(emptied: Vec<String>) -> Check {
    Check {
        what: "every cluster has what its Bundles say, and nothing else of theirs".to_owned(),
        look: Look::new(move |fleet| {
            let emptied = emptied.clone();
            Box::pin(async move {
                let differ = differences(fleet, &emptied).await?;
                match differ.is_empty() {
                    true => Ok(()),
                    false => Err(differ.into_iter().take(NAMED).collect::<Vec<_>>().join("; ")),
                }
            })
        }),
    }
}

fn place(object: &Value) -> Place {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let namespace = text("/metadata/namespace").unwrap_or("default");
    [
        text("/apiVersion").unwrap_or_default(),
        text("/kind").unwrap_or_default(),
        namespace,
        text("/metadata/name").unwrap_or_default(),
    ]
    .map(str::to_owned)
}

async fn differences(fleet: &Fleet, emptied: &[String]) -> Result<Vec<String>, String> {
    let (client, all) = (fleet.hub_client(), Default::default());
    let failed = |error: kube::Error| error.to_string();
    let bundles = Api::<Bundle>::all(client.clone())
        .list(&all)
        .await
        .map_err(failed)?;
    let clusters = Api::<Cluster>::all(client).list(&all).await.map_err(failed)?;
    let known: BTreeSet<String> = clusters.iter().map(ResourceExt::name_any).collect();
    let mut wanted: BTreeMap<String, BTreeMap<Place, &Value>> = BTreeMap::new();
    for bundle in &bundles {
        let namespace = bundle.namespace().unwrap_or_default();
        let cluster = namespace.strip_prefix("cluster-").unwrap_or(&namespace);
        let manifests = bundle.spec.workload.manifests.iter();
        let of_cluster = wanted.entry(cluster.to_owned()).or_default();
        of_cluster.extend(manifests.map(|manifest| (place(manifest), manifest)));
    }
    let kinds: BTreeSet<[String; 2]> = wanted
        .values()
        .flat_map(BTreeMap::keys)
        .map(|[version, kind, ..]| [version.clone(), kind.clone()])
        .collect();
    let mut differ = Vec::new();
    for cluster in fleet.members() {
        // What it keeps when it leaves is its own.
        if !known.contains(&cluster) && !emptied.contains(&cluster) {
            continue;
        }
        let of_cluster = wanted.remove(&cluster).unwrap_or_default();
        let have = owned_or_wanted(fleet, &cluster, &kinds, &of_cluster).await?;
        differ.extend(compare(&cluster, &of_cluster, &have));
    }
    Ok(differ)
}

/// The objects of a cluster that an agent has made, and those that are wanted there.
async fn owned_or_wanted(
    fleet: &Fleet,
    cluster: &str,
    kinds: &BTreeSet<[String; 2]>,
    wanted: &BTreeMap<Place, &Value>,
) -> Result<BTreeMap<Place, Value>, String> {
    let client = fleet.member_client(cluster).map_err(|error| error.to_string())?;
    let mut have = BTreeMap::new();
    for [version, kind] in kinds {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(version, kind));
        let objects = api
            .list(&Default::default())
            .await
            .map_err(|error| error.to_string())?;
        for object in objects {
            let owned = object.annotations().contains_key(annotation::OWNED_BY);
            let mut value = serde_json::to_value(&object).map_err(|error| error.to_string())?;
            value["apiVersion"] = version.as_str().into();
            value["kind"] = kind.as_str().into();
            let place = place(&value);
            if owned || wanted.contains_key(&place) {
                have.insert(place, value);
            }
        }
    }
    Ok(have)
}

/// What differs in one cluster; pure.
fn compare(cluster: &str, wanted: &BTreeMap<Place, &Value>, have: &BTreeMap<Place, Value>) -> Vec<String> {
    let named = |[_, kind, namespace, name]: &Place| format!("{cluster}: {kind} {namespace}/{name}");
    let mut differ = Vec::new();
    for (place, manifest) in wanted {
        match have.get(place) {
            None => differ.push(format!("{} is not there", named(place))),
            Some(live) => {
                let at = missing(manifest, live, "");
                differ.extend(at.map(|at| format!("{} is not as wanted at {at}", named(place))));
            }
        }
    }
    let left = have.keys().filter(|place| !wanted.contains_key(*place));
    differ.extend(left.map(|place| format!("{} is of no Bundle", named(place))));
    differ
}

/// The first place in `wanted` that `live` has otherwise.
fn missing(wanted: &Value, live: &Value, at: &str) -> Option<String> {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().find_map(|(key, value)| {
            let at = format!("{at}.{key}");
            match live.get(key) {
                Some(live) => missing(value, live, &at),
                None => Some(at),
            }
        }),
        (Value::Array(wanted), Value::Array(live)) if wanted.len() == live.len() => {
            let mut pairs = wanted.iter().zip(live).enumerate();
            pairs.find_map(|(n, (wanted, live))| missing(wanted, live, &format!("{at}[{n}]")))
        }
        (wanted, live) => (wanted != live).then(|| format!("{at}: {live}, not {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_otherwise_or_left_over_is_told() {
        let config = |name: &str, image: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
                "data": {"image": image, "list": [1, 2]}})
        };
        let (same, other, gone) = (config("same", "a"), config("other", "a"), config("gone", "a"));
        let wanted = [&same, &other, &gone].map(|manifest| (place(manifest), manifest));
        let mut live = same.clone();
        live["data"]["theirs"] = json!("b");
        let have = [live, config("other", "b"), config("left", "a")].map(|live| (place(&live), live));
        let differ = compare("c1", &wanted.into(), &have.into());
        assert_eq!(
            differ,
            [
                "c1: ConfigMap default/gone is not there",
                "c1: ConfigMap default/other is not as wanted at .data.image: \"b\", not \"a\"",
                "c1: ConfigMap default/left is of no Bundle",
            ]
        );
        assert_eq!(
            missing(&json!({"a": [1, 2]}), &json!({"a": [1]}), ""),
            Some(".a: [1], not [1,2]".to_owned())
        );
    }
}
