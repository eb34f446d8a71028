//! After a hub was restored from a backup and somebody has confirmed it: its agents ignore what it says where they have obeyed
//! something later, also once it leads again. Each Bundle of which an agent says so gets the epoch of the term, whoever wrote it and
//! whatever else is decided about it. Its agent obeys it then.

use super::{Key, cache::Cache};
use crate::{dispatch::Observed, leader::Term, writes};
use futures::{StreamExt, stream};
use kube::{Api, Client, api::Patch};
use roundhouse_api::bundle::Bundle;
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Bundles that are written at once.
const AT_ONCE: usize = 16;
/// Pause after a write that failed.
const RETRY: Duration = Duration::from_secs(5);

/// Runs for ever; wakes when the cache says that such a Bundle changed. Without a confirmation nothing is written.
pub(super) async fn go_back(client: Client, cache: &Cache, term: Term) {
    if term.confirmed == 0 {
        return std::future::pending().await;
    }
    // What was written, by the version that was: until the event of it arrives the cache still has it.
    let mut written: BTreeMap<Key, String> = BTreeMap::new();
    loop {
        let ignored = cache.ignored();
        let keys: BTreeSet<Key> = ignored.iter().map(|bundle| key_of(bundle)).collect();
        written.retain(|key, _| keys.contains(key));
        let due = ignored.iter().filter(|bundle| {
            is_due(bundle, term) && written.get(&key_of(bundle)) != Some(&bundle.resource_version)
        });
        let due: Vec<_> = due.cloned().collect();
        let mut writes = stream::iter(due)
            .map(|bundle| async {
                let done = raise(&client, &bundle, term).await;
                (bundle, done)
            })
            .buffer_unordered(AT_ONCE);
        let mut failed = false;
        while let Some((bundle, done)) = writes.next().await {
            match done {
                Ok(()) => {
                    let (namespace, name) = (&bundle.namespace, &bundle.name);
                    tracing::info!(
                        namespace,
                        name,
                        epoch = term.epoch,
                        "its agent goes back to this bundle"
                    );
                    written.insert(key_of(&bundle), bundle.resource_version.clone());
                }
                Err(error) => {
                    tracing::warn!(namespace = bundle.namespace, bundle = bundle.name, %error, "its agent does not go back yet");
                    failed = true;
                }
            }
        }
        let pause = async {
            match failed {
                true => tokio::time::sleep(RETRY).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = cache.ignored_changed() => {}
            () = pause => {}
        }
    }
}

/// Whether a Bundle that is ignored is of before the restore, and so is what its agent obeys.
fn is_due(bundle: &Observed, term: Term) -> bool {
    let obeyed = bundle.status.as_ref().and_then(|status| status.epoch);
    let before = |epoch: Option<i64>| epoch.unwrap_or(0) <= term.confirmed;
    bundle.is_ignored() && before(bundle.spec.epoch) && before(obeyed)
}

fn key_of(bundle: &Observed) -> Key {
    (bundle.namespace.clone(), bundle.name.clone())
}

/// Only this very Bundle, as it was seen: one that changed meanwhile is looked at again.
async fn raise(client: &Client, bundle: &Observed, term: Term) -> Result<(), kube::Error> {
    let api: Api<Bundle> = Api::namespaced(client.clone(), &bundle.namespace);
    let patch =
        json!({"metadata": {"resourceVersion": bundle.resource_version}, "spec": {"epoch": term.epoch}});
    match api
        .patch(&bundle.name, &writes::patch(), &Patch::Merge(patch))
        .await
    {
        // It is gone, or the word of the newer version is on its way.
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::testing::{api_server, bundle, bundles_in};
    use kube::{
        ResourceExt,
        api::{DeleteParams, PostParams},
    };
    use roundhouse_api::{
        bundle::{BundleSpec, BundleStatus, OLD_EPOCH, OLD_GENERATION},
        condition::{self, Status, Verdict},
    };
    use std::sync::Arc;

    /// An agent that obeys this epoch ignores a generation of a Bundle.
    fn ignores(reason: &'static str, obeyed: Option<i64>, generation: i64) -> BundleStatus {
        let mut status = BundleStatus {
            epoch: obeyed,
            ..BundleStatus::default()
        };
        let verdict = Verdict {
            type_: "Progressing",
            status: Status::False,
            reason,
            message: String::new(),
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        condition::set(&mut status.conditions, verdict, Some(generation), now);
        status
    }

    #[test]
    fn what_is_of_before_the_restore_goes_back_and_nothing_else() {
        let term = Term {
            epoch: 1_002,
            confirmed: 1_001,
        };
        for (reason, written, obeyed, generation, is) in [
            (OLD_GENERATION, Some(1), Some(1), 7, true),
            (OLD_EPOCH, Some(1), Some(3), 7, true),
            // By hand there is no epoch.
            (OLD_GENERATION, None, None, 7, true),
            // That was said of another generation, or is something else.
            (OLD_GENERATION, Some(1), Some(1), 6, false),
            ("EmptyNotConfirmed", Some(1), Some(1), 7, false),
            // Of after it: another hub leads, or somebody writes epochs by hand.
            (OLD_EPOCH, Some(1), Some(1_005), 7, false),
            (OLD_EPOCH, Some(1_002), Some(1), 7, false),
        ] {
            let spec = BundleSpec {
                epoch: written,
                ..BundleSpec::default()
            };
            let bundle = Observed {
                generation: 7,
                spec: Arc::new(spec),
                status: Some(Arc::new(ignores(reason, obeyed, generation))),
                ..Observed::default()
            };
            assert_eq!(
                is_due(&bundle, term),
                is,
                "{reason} {written:?} {obeyed:?} {generation}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_bundle_that_is_ignored_gets_the_epoch_once_whatever_becomes_of_it() {
        let (server, client) = api_server().await;
        let bundles = bundles_in(&client, "cluster-c1").await;
        let cache = Arc::new(Cache::default());
        let take = |bundle: Bundle| drop(cache.put_bundle(Observed::of(bundle).unwrap()));
        let mut by_hand = bundle(&("default".to_owned(), "web".to_owned()));
        by_hand.metadata.name = Some("by-hand".to_owned());
        by_hand.spec.application_ref = None;
        let mut going = bundle(&("default".to_owned(), "web".to_owned()));
        going.metadata.name = Some("going".to_owned());
        let mut obeyed = going.clone();
        obeyed.metadata.name = Some("obeyed".to_owned());
        let placed = bundle(&("default".to_owned(), "web".to_owned()));
        for one in [&placed, &by_hand, &going, &obeyed] {
            bundles.create(&PostParams::default(), one).await.unwrap();
        }
        bundles.delete("going", &DeleteParams::default()).await.unwrap();
        for name in ["default.web", "by-hand", "going"] {
            let generation = bundles.get(name).await.unwrap().metadata.generation.unwrap();
            let status = json!({"status": ignores(OLD_GENERATION, Some(1), generation)});
            let patched = bundles
                .patch_status(name, &writes::patch(), &Patch::Merge(status))
                .await;
            take(patched.unwrap());
        }
        take(bundles.get("obeyed").await.unwrap());
        let epochs = async || {
            let all = bundles.list(&Default::default()).await.unwrap();
            let epochs = all.iter().map(|bundle| (bundle.name_any(), bundle.spec.epoch));
            epochs.collect::<BTreeMap<String, Option<i64>>>()
        };
        let run = async |confirmed, epoch| {
            let term = Term { epoch, confirmed };
            let hour = Duration::from_secs(3_600);
            let ended = tokio::time::timeout(hour, go_back(client.clone(), &cache, term)).await;
            assert!(ended.is_err(), "it runs for ever");
        };
        run(0, 3).await;
        assert!(
            epochs().await.values().all(Option::is_none),
            "nobody has confirmed it"
        );
        run(1_001, 1_002).await;
        let expected = [
            ("by-hand", Some(1_002)),
            ("default.web", Some(1_002)),
            ("going", Some(1_002)),
            ("obeyed", None),
        ];
        assert_eq!(
            epochs().await,
            expected.map(|(name, epoch)| (name.to_owned(), epoch)).into()
        );
        // The word of it, and agents that say nothing yet: there is nothing more to write.
        let all = bundles.list(&Default::default()).await.unwrap();
        all.into_iter().for_each(take);
        let before = server.counter().write_requests();
        run(1_001, 1_002).await;
        assert_eq!(server.counter().write_requests(), before);
    }
}
