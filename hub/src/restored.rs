//! A hub that was restored from a backup: agents may have obeyed what it does not know of any more. It writes nothing until
//! somebody has looked and confirmed it; from then on its epoch is above whatever was obeyed.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    runtime::wait::{Condition, await_condition},
};
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

/// The epoch that confirms a restored hub, above every one that is stored or was reported.
pub fn confirming_epoch(seen: impl IntoIterator<Item = i64>) -> i64 {
    seen.into_iter().max().unwrap_or(0).max(0).saturating_add(AHEAD)
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

    #[test]
    fn a_confirming_epoch_is_above_all() {
        assert_eq!(confirming_epoch([]), 1_000);
        assert_eq!(confirming_epoch([3, 41, 7]), 1_041);
        assert_eq!(confirming_epoch([i64::MAX, -5]), i64::MAX);
    }
}
