//! Whether the clusters have what their Bundles say, whatever anybody says of it.

use super::{Act, Check, Cue, Look, coherent::incoherent, objects::resource};
use crate::simulate::{
    Fleet, HUB,
    monitor::Monitor,
    raw::{missing, name},
};
use kube::{Api, ResourceExt, api::DynamicObject};
use roundhouse_api::{
    bundle::Bundle,
    cluster::{Cluster, JOINED, Leave},
    ledger::{AppliedBundle, AppliedBundleSpec, LedgerEntry, LedgerOutcome, LedgerState},
    names::{annotation, cluster_namespace, cluster_of_namespace},
};
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// As many differences are named.
const NAMED: usize = 8;

/// Where an object is: `apiVersion`, kind, namespace, name.
type Place = [String; 4];

/// The Bundles are what was decided, and carry what users applied last. Every manifest of a Bundle is in its cluster, with all that
/// it says; nothing else is there that an agent has made, and nothing is still to go. Nor is anything in a cluster that was emptied
/// when it left, as these `cues` have it. A cluster that they restore from a backup may have again what was removed since, and every
/// one may have what a hub that they restore does not know: that nobody knows any more why it went is no evidence, so that the agent
/// holds it, and its Cluster says so. What a repeated request has made
/// again after its removal stays where the agent was ended meanwhile: what it looks for it knows as long as it runs. A ledger that a
/// repeated request has made is as one out of a backup.
pub fn agreement(cues: &[Cue]) -> Check {
    let emptied = cues.iter().filter_map(|cue| match &cue.act {
        Act::Leave(cluster, Leave::DeleteResources) => Some(cluster.clone()),
        _ => None,
    });
    let restored = cues.iter().filter_map(|cue| match &cue.act {
        Act::Restore(cluster) => Some(cluster.clone()),
        _ => None,
    });
    let (emptied, restored): (Vec<_>, Vec<_>) = (emptied.collect(), restored.collect());
    Check {
        what:
            "every cluster has what its Bundles say, and nothing else of theirs; these are what was decided"
                .to_owned(),
        look: Look::beside(move |fleet, monitor| {
            let (emptied, restored) = (emptied.clone(), restored.clone());
            Box::pin(async move {
                let mut differ = incoherent(fleet, monitor).await?;
                differ.extend(differences(fleet, monitor, (&emptied, &restored)).await?);
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

async fn differences(
    fleet: &Fleet,
    monitor: &Monitor,
    (emptied, restored): (&[String], &[String]),
) -> Result<Vec<String>, String> {
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
        let cluster = cluster_of_namespace(&namespace).unwrap_or(&namespace);
        let manifests = bundle.spec.workload.manifests.iter();
        let of_cluster = wanted.entry(cluster.to_owned()).or_default();
        of_cluster.extend(manifests.map(|manifest| (place(manifest), manifest)));
    }
    // Of a kind that nothing is wanted of any more something may have been left as well.
    let kinds = monitor.carried_kinds();
    let mut differ = Vec::new();
    for cluster in fleet.members() {
        // What it keeps when it leaves is its own.
        if !known.contains(&cluster) && !emptied.contains(&cluster) {
            continue;
        }
        let of_cluster = wanted.remove(&cluster).unwrap_or_default();
        let mut have = owned_or_wanted(fleet, &cluster, &kinds, &of_cluster).await?;
        let stored = clusters.iter().find(|stored| stored.name_any() == cluster);
        let ledgers = Api::<AppliedBundle>::all(fleet.member_client(&cluster).map_err(|e| e.to_string())?);
        let ledgers = match ledgers.list(&all).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            ledgers => ledgers.map_err(failed)?.items,
        };
        differ.extend(still_to_go(&cluster, ledgers.iter().map(|ledger| &ledger.spec)));
        let (strays, again) = (monitor.strays(&cluster), monitor.stray_ledgers(&cluster));
        let bundles: BTreeSet<String> = bundles
            .iter()
            .filter(|bundle| bundle.namespace() == Some(cluster_namespace(&cluster)))
            .map(ResourceExt::name_any)
            .collect();
        let may_hold = |ledger: &&AppliedBundle| {
            let is_again = again.contains(&ledger.name_any()) && !bundles.contains(&ledger.spec.bundle);
            let is_back = |of: &String| *of == cluster || *of == HUB;
            restored.iter().any(is_back) || is_again
        };
        if let Some(stored) = stored {
            let held = held(stored, ledgers.iter().filter(may_hold).map(|ledger| &ledger.spec));
            have.retain(|place, _| of_cluster.contains_key(place) || !held.contains(place));
        }
        let is_stray = |place: &Place| strays.iter().any(|key| is_at(key, place));
        have.retain(|place, _| of_cluster.contains_key(place) || !is_stray(place));
        differ.extend(compare(&cluster, &of_cluster, &have));
    }
    Ok(differ)
}

/// Whether the object of a key is at a place.
fn is_at(key: &Key, [version, kind, namespace, name]: &Place) -> bool {
    let resource = resource(version, kind);
    let table = match resource.group.as_str() {
        "" => resource.plural,
        group => format!("{}.{group}", resource.plural),
    };
    (&*key.table, &*key.namespace, &*key.name) == (table.as_str(), namespace.as_str(), name.as_str())
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
        let objects = match api.list(&Default::default()).await {
            // A kind that this cluster does not know.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            objects => objects.map_err(|error| error.to_string())?,
        };
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

/// The objects of bundles that vanished, which the agent holds, where the Cluster names them; pure.
fn held<'a>(cluster: &Cluster, ledgers: impl Iterator<Item = &'a AppliedBundleSpec>) -> BTreeSet<Place> {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let joined = conditions.into_iter().find(|condition| condition.type_ == JOINED);
    let says = joined.map(|joined| joined.message.as_str()).unwrap_or_default();
    let said =
        |ledger: &&AppliedBundleSpec| ledger.state == LedgerState::Orphaned && says.contains(&ledger.bundle);
    let of = |entry: &LedgerEntry| {
        let version = match entry.group.as_str() {
            "" => entry.version.clone(),
            group => format!("{group}/{}", entry.version),
        };
        [
            version,
            entry.kind.clone(),
            entry.namespace.clone(),
            entry.name.clone(),
        ]
    };
    ledgers
        .filter(said)
        .flat_map(|ledger| &ledger.objects)
        .map(of)
        .collect()
}

/// What an agent has still to remove, or to look for: a request to make it may still arrive; pure.
fn still_to_go<'a>(cluster: &str, ledgers: impl Iterator<Item = &'a AppliedBundleSpec>) -> Vec<String> {
    let followed = ledgers.filter(|ledger| ledger.state != LedgerState::Orphaned);
    let entries = followed.flat_map(|ledger| &ledger.objects);
    let going = entries.filter(|entry| entry.outcome == LedgerOutcome::Removing);
    going
        .map(|entry| {
            format!(
                "{cluster}: {} {}/{} is still to go",
                entry.kind, entry.namespace, entry.name
            )
        })
        .collect()
}

/// What differs in one cluster; pure.
fn compare(cluster: &str, wanted: &BTreeMap<Place, &Value>, have: &BTreeMap<Place, Value>) -> Vec<String> {
    let named = |[_, kind, namespace, name]: &Place| format!("{cluster}: {kind} {namespace}/{name}");
    let mut differ = Vec::new();
    for (place, manifest) in wanted {
        match have.get(place) {
            None => differ.push(format!("{} is not there", named(place))),
            Some(live) => {
                let at = missing(manifest, &without_others(manifest, live), "");
                differ.extend(at.map(|at| format!("{} is not as wanted at {at}", named(place))));
            }
        }
    }
    let left = have.keys().filter(|place| !wanted.contains_key(*place));
    differ.extend(left.map(|place| format!("{} is of no Bundle", named(place))));
    differ
}

/// An object without the elements of its lists that are called as none of the manifest is, and the others in the order of the
/// manifest: a container that somebody has put beside ours is no difference; pure.
fn without_others(manifest: &Value, live: &Value) -> Value {
    match (manifest, live) {
        (Value::Object(manifest), Value::Object(live)) => {
            let field = |(field, value): (&String, &Value)| {
                let own = manifest.get(field);
                (
                    field.clone(),
                    own.map_or(value.clone(), |own| without_others(own, value)),
                )
            };
            Value::Object(live.iter().map(field).collect())
        }
        (Value::Array(manifest), Value::Array(live))
            if manifest.iter().all(|element| name(element).is_some()) =>
        {
            let own = |wanted: &Value| {
                let found = live.iter().find(|element| name(element) == name(wanted))?;
                Some(without_others(wanted, found))
            };
            Value::Array(manifest.iter().filter_map(own).collect())
        }
        (_, live) => live.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_container_beside_ours_is_no_difference_and_one_that_is_not_there_is() {
        let with = |containers: Value| json!({"spec": {"containers": containers, "args": ["a"]}});
        let (web, mesh) = (
            json!({"name": "web", "image": "web:1"}),
            json!({"name": "mesh", "image": "mesh:1"}),
        );
        let wanted = with(json!([web]));
        for (live, at) in [
            (with(json!([mesh, web])), None),
            (
                with(json!([{"name": "web", "image": "mine"}, mesh])),
                Some(".spec.containers[0].image"),
            ),
            (with(json!([mesh])), Some(".spec.containers")),
            (
                json!({"spec": {"containers": [web], "args": ["a", "b"]}}),
                Some(".spec.args"),
            ),
        ] {
            let differs = missing(&wanted, &without_others(&wanted, &live), "");
            let differs = differs.as_deref().and_then(|differs| differs.split(':').next());
            assert_eq!(differs, at, "{live}");
        }
    }

    #[test]
    fn what_is_held_of_a_bundle_that_vanished_is_known_where_the_cluster_says_so() {
        let says = |message: &str| {
            let mut cluster = Cluster::new("c1", Default::default());
            let joined = json!({"conditions": [{"type": JOINED, "status": "True", "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
            cluster.status = serde_json::from_value(joined).unwrap();
            cluster
        };
        let ledger = |bundle: &str, state: LedgerState| AppliedBundleSpec {
            bundle: bundle.to_owned(),
            state,
            objects: vec![LedgerEntry {
                group: "apps".to_owned(),
                version: "v1".to_owned(),
                kind: "Deployment".to_owned(),
                namespace: "default".to_owned(),
                name: bundle.to_owned(),
                ..LedgerEntry::default()
            }],
            ..AppliedBundleSpec::default()
        };
        let ledgers = [
            ledger("said", LedgerState::Orphaned),
            ledger("other", LedgerState::Orphaned),
            ledger("applied", LedgerState::Applied),
        ];
        let known = held(&says("it holds: said, applied"), ledgers.iter());
        let expected = ["apps/v1", "Deployment", "default", "said"].map(str::to_owned);
        assert_eq!(known, BTreeSet::from([expected]));
        assert!(held(&Cluster::new("c1", Default::default()), ledgers.iter()).is_empty());
    }

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
