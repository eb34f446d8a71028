//! Deletes hand-written Bundles whose time after completion is over. Agents may not delete Bundles; what becomes of the
//! objects is what becomes of them at any deletion of the Bundle.

use super::{Key, cache::Cache};
use crate::{
    dispatch::{Observed, expiry},
    writes,
};
use jiff::Timestamp;
use kube::{Api, Client};
use roundhouse_api::{bundle::Bundle, clock::SharedClock};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Pause after a deletion that failed, and the longest sleep: the clock may be set meanwhile.
const RETRY: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

/// When a Bundle was first seen complete.
type Seen = BTreeMap<Key, (String, Timestamp, Timestamp)>;

/// Runs for ever; wakes when the cache says that such a Bundle changed, and when one is due.
pub(super) async fn expire(client: Client, cache: &Cache, clock: SharedClock) {
    let mut seen = Seen::new();
    // What was deleted, by the version that was: until the event of it arrives the cache still has it.
    let mut deleted: BTreeMap<Key, String> = BTreeMap::new();
    loop {
        let bundles = cache.expiring();
        deleted.retain(|key, version| {
            let held = bundles.iter().find(|bundle| bundle.key() == *key);
            held.is_some_and(|bundle| bundle.resource_version == *version)
        });
        let now = clock.now();
        let due = due(&bundles, &mut seen, now);
        let mut pause = LONGEST;
        for (bundle, when) in due {
            if deleted.contains_key(&bundle.key()) {
                continue;
            }
            if when > now {
                let left = Duration::try_from(when.duration_since(now)).unwrap_or(LONGEST);
                pause = pause.min(left);
                continue;
            }
            match delete(&client, bundle).await {
                Ok(()) => {
                    tracing::info!(
                        namespace = bundle.namespace,
                        bundle = bundle.name,
                        "deleted: it is complete, and its ttlSecondsAfterFinished is over"
                    );
                    deleted.insert(bundle.key(), bundle.resource_version.clone());
                }
                Err(error) => {
                    tracing::warn!(namespace = bundle.namespace, bundle = bundle.name, %error, "not deleted yet");
                    pause = pause.min(RETRY);
                }
            }
        }
        tokio::select! {
            biased;
            () = cache.expiring_changed() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// When each is due, of those that are complete.
fn due<'a>(bundles: &'a [Arc<Observed>], seen: &mut Seen, now: Timestamp) -> Vec<(&'a Observed, Timestamp)> {
    let mut kept = Seen::new();
    let mut due = Vec::new();
    for bundle in bundles {
        let Some(since) = expiry::complete_since(bundle) else {
            continue;
        };
        let key = bundle.key();
        let known = seen
            .remove(&key)
            .filter(|(uid, at, _)| *uid == bundle.uid && *at == since);
        let (.., first) = kept
            .entry(key)
            .or_insert(known.unwrap_or((bundle.uid.clone(), since, now)));
        due.extend(expiry::expires_at(bundle, *first).map(|when| (&**bundle, when)));
    }
    *seen = kept;
    due
}

/// Only this very Bundle, as it was judged: one that changed meanwhile is judged again.
async fn delete(client: &Client, bundle: &Observed) -> Result<(), kube::Error> {
    let api: Api<Bundle> = Api::namespaced(client.clone(), &bundle.namespace);
    let params = writes::delete_version(Some(bundle.uid.clone()), Some(bundle.resource_version.clone()));
    match api.delete(&bundle.name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer.map(drop),
    }
}
