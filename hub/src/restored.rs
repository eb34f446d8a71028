//! A hub that was restored from a backup: agents may have obeyed what it does not know of any more. It writes nothing until
//! somebody has looked and confirmed it; from then on its epoch is above whatever was obeyed, and Bundles that agents ignore get
//! it.

use crate::leader::{self, MAX_EPOCH};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    runtime::wait::{Condition, await_condition},
};
use roundhouse_api::{bundle::BundleStatus, names::cluster_of_namespace};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Namespace of the mark.
pub const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap that marks a restored hub. Made by `roundhouse restore`; make it by hand where the API server's own
/// backup was restored, such as etcd's.
pub const NAME: &str = "roundhouse-restored";
/// The key that confirms it: the epoch above which the hub goes on.
pub const EPOCH: &str = "epoch";
/// Keys that tell of the backup and of when it was restored.
pub const TAKEN_AT: &str = "takenAt";
/// When it was restored.
pub const RESTORED_AT: &str = "restoredAt";

/// How far a confirmed epoch is above every epoch that was seen: agents that have not reported may have obeyed a later one.
const AHEAD: i64 = 1_000;

/// How long to wait before asking an API server again that did not answer.
const PAUSE: Duration = Duration::from_secs(2);

/// A mark for a new store.
pub fn mark(taken_at: &str, restored_at: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..Default::default()
        },
        data: Some(BTreeMap::from([
            (TAKEN_AT.to_owned(), taken_at.to_owned()),
            (RESTORED_AT.to_owned(), restored_at.to_owned()),
        ])),
        ..Default::default()
    }
}

/// An agent that has obeyed something later than what the hub knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    /// The cluster.
    pub cluster: String,
    /// Name of the Bundle.
    pub bundle: String,
    /// What the agent says.
    pub why: String,
}

/// What a restored hub knows of what agents have obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Agents that are ahead.
    pub ahead: Vec<Ahead>,
    /// The highest epoch that is stored, the Lease's among them, or was reported, as far as it can be believed; 0 if none is.
    pub epoch: i64,
    /// Agents that have renewed their Lease since the hub was restored …
    pub reported: usize,
    /// … of all.
    pub agents: usize,
    /// The clusters of those that have not, sorted.
    pub silent: Vec<String>,
}

/// When the hub was restored, as its mark says; one that does not counts as of `now`.
fn restored_at(mark: &ConfigMap, now: Timestamp) -> Timestamp {
    let said = mark
        .data
        .as_ref()
        .and_then(|data| data.get(RESTORED_AT)?.parse().ok());
    said.unwrap_or(now)
}

/// Looks at what agents have said since the hub was restored; a mark that does not say when counts as one of `now`.
///
/// # Errors
/// The API server does not answer, or refuses.
pub async fn look(client: &Client, mark: &ConfigMap, now: Timestamp) -> Result<Seen, kube::Error> {
    let since = restored_at(mark, now);
    let mut seen = Seen {
        ahead: Vec::new(),
        epoch: 0,
        reported: 0,
        agents: 0,
        silent: Vec::new(),
    };
    leader::each::<Lease>(client, |lease| {
        let namespace = lease.namespace().unwrap_or_default();
        if let Some(cluster) = cluster_of_namespace(&namespace) {
            let renewed = lease.data.pointer("/spec/renewTime").and_then(Value::as_str);
            let renewed: Option<Timestamp> = renewed.and_then(|at| at.parse().ok());
            seen.agents += 1;
            match renewed.is_some_and(|at| at > since) {
                true => seen.reported += 1,
                false => seen.silent.push(cluster.to_owned()),
            }
        }
    })
    .await?;
    seen.silent.sort();
    let look = |bundle: &DynamicObject| seen.ahead.extend(ahead(bundle));
    seen.epoch = leader::obeyed_epoch(client, since.as_second(), look).await?;
    Ok(seen)
}

/// What an agent says of a Bundle that it is ahead of.
fn ahead(bundle: &DynamicObject) -> Option<Ahead> {
    let generation = bundle.metadata.generation.unwrap_or_default();
    let status = BundleStatus::deserialize(bundle.data.get("status")?).ok()?;
    let old = status.ignores(generation)?;
    let namespace = bundle.namespace().unwrap_or_default();
    Some(Ahead {
        cluster: cluster_of_namespace(&namespace).unwrap_or(&namespace).to_owned(),
        bundle: bundle.name_any(),
        why: old.message.clone(),
    })
}

/// Lets a restored hub go on above every epoch that was seen; that epoch. A mark that does not say when it was restored counts as one
/// of `now`.
///
/// # Errors
/// The API server does not answer, or the mark is another one by now.
pub async fn confirm(
    client: &Client,
    mark: &ConfigMap,
    seen: &Seen,
    now: Timestamp,
) -> Result<i64, kube::Error> {
    let epoch = confirming_epoch(seen.epoch, restored_at(mark, now));
    let patch = json!({"data": {EPOCH: epoch.to_string()},
        "metadata": {"resourceVersion": mark.resource_version()}});
    let marks: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    marks
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(epoch)
}

/// The epoch that confirms a restored hub, above the highest one that is stored or was reported. The seconds of the clock when it
/// was restored are one, too: of two hubs that are restored from one backup the later one goes on above the earlier one, whether or
/// not its agents have reported.
fn confirming_epoch(seen: i64, restored: Timestamp) -> i64 {
    let ahead = seen.max(0).saturating_add(AHEAD);
    ahead.max(restored.as_second()).min(MAX_EPOCH - 1)
}

/// The epoch that a mark confirms; `None` as long as it does not.
pub fn confirmed(mark: &ConfigMap) -> Option<i64> {
    mark.data.as_ref()?.get(EPOCH)?.trim().parse().ok()
}

/// Waits until the hub is not restored, or that is confirmed; tells the epoch above which it goes on.
pub(crate) async fn until_confirmed(client: &Client) -> i64 {
    let marks: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut told = false;
    loop {
        match marks.get_opt(NAME).await {
            Ok(None) => return 0,
            Ok(Some(mark)) => {
                if let Some(epoch) = confirmed(&mark) {
                    return epoch;
                }
                if !told {
                    told = true;
                    tracing::error!(
                        "this hub was restored from a backup: it writes nothing until that is confirmed. Agents may have \
                         obeyed what it does not know of; look at them and go on with: roundhouse restore --confirm"
                    );
                }
                if let Err(error) = await_condition(marks.clone(), NAME, goes_on()).await {
                    tracing::warn!(%error, "the mark of the restored hub cannot be watched");
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "whether this hub was restored cannot be read");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn goes_on() -> impl Condition<ConfigMap> {
    |mark: Option<&ConfigMap>| mark.is_none_or(|mark| confirmed(mark).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_epoch_confirms() {
        let mut mark = mark("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        assert_eq!(confirmed(&mark), None);
        for (text, epoch) in [
            ("", None),
            ("yes", None),
            ("1007", Some(1_007)),
            (" 7\n", Some(7)),
        ] {
            let data = mark.data.as_mut().unwrap();
            data.insert(EPOCH.to_owned(), text.to_owned());
            assert_eq!(confirmed(&mark), epoch, "{text:?}");
        }
    }

    #[tokio::test]
    async fn agents_that_have_not_reported_are_named() {
        let client = Client::new(
            roundhouse_apiserver::Server::builder().build().service(),
            "default",
        );
        let options = crate::run::HubOptions::default();
        crate::run::install(&client, &options).await.unwrap();
        for (namespace, renewed) in [
            ("cluster-c", None),
            ("cluster-b", Some("2026-01-03T00:00:00.000000Z")),
            ("cluster-a", Some("2026-01-01T00:00:00.000000Z")),
            ("kube-system", None),
        ] {
            let of = |value: Value| serde_json::from_value(value).unwrap();
            let params = kube::api::PostParams::default();
            let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
            // One of them may be there already.
            let _ = namespaces
                .create(&params, &serde_json::from_value(named).unwrap())
                .await;
            let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
            let lease = of(json!({"metadata": {"name": "agent"}, "spec": {"renewTime": renewed}}));
            leases.create(&params, &lease).await.unwrap();
        }
        let mark = mark("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let seen = look(&client, &mark, Timestamp::UNIX_EPOCH).await.unwrap();
        assert_eq!((seen.reported, seen.agents), (1, 3));
        assert_eq!(seen.silent, ["a", "c"]);
    }

    #[test]
    fn a_confirming_epoch_is_above_all() {
        let begins = Timestamp::UNIX_EPOCH;
        assert_eq!(confirming_epoch(0, begins), 1_000);
        assert_eq!(confirming_epoch(41, begins), 1_041);
        assert_eq!(confirming_epoch(-5, begins), 1_000);
        assert!(
            confirming_epoch(i64::MAX, begins) < MAX_EPOCH,
            "there is a term after it"
        );
        // The same backup twice.
        let [first, second] = ["2026-01-02T00:00:00Z", "2026-01-02T00:01:00Z"].map(|at| at.parse().unwrap());
        let first = confirming_epoch(5, first);
        assert_eq!(confirming_epoch(5, second), first + 60);
        assert_eq!(confirming_epoch(first + 3, second), first + 1_003);
        let last = confirming_epoch(5, Timestamp::MAX);
        assert!(last < MAX_EPOCH);
        assert_eq!(confirming_epoch(5, Timestamp::MIN), 1_005);
    }
}
