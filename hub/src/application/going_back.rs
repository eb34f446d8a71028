//! After a hub was restored from a backup and somebody has confirmed it: its agents ignore what it says where they have obeyed
//! something later, also once it leads again. Each Bundle of which an agent says so gets the epoch of the term, whoever wrote it and
//! whatever else is decided about it. Its agent obeys it then.

use super::{
    cache::Cache,
    tries::{Tried, Tries},
};
use crate::{dispatch::Observed, leader::Term, writes};
use kube::{Api, Client, api::Patch};
use roundhouse_api::bundle::Bundle;
use serde_json::json;
use std::sync::Arc;

/// Runs for ever; wakes when the cache says that such a Bundle changed. Without a confirmation nothing is written.
pub(super) async fn go_back(client: Client, cache: &Cache, term: Term) {
    if term.confirmed == 0 {
        return std::future::pending().await;
    }
    let mut tries = Tries::default();
    loop {
        let mut due = cache.ignored();
        due.retain(|bundle| is_due(bundle, term));
        tries.retain(&due);
        due.retain(|bundle| tries.is_due(bundle));
        let told = |bundle: &Observed, done: Tried<bool>| {
            let (namespace, name) = (&bundle.namespace, &bundle.name);
            match done {
                Ok(true) => tracing::info!(
                    namespace,
                    name,
                    epoch = term.epoch,
                    "its agent goes back to this bundle"
                ),
                Ok(false) => {}
                Err((error, again)) => {
                    tracing::warn!(namespace, name, %error, ?again, "its agent does not go back yet");
                }
            }
        };
        tries
            .write(due, |bundle| raise(client.clone(), bundle, term), told)
            .await;
        tokio::select! {
            biased;
            () = cache.ignored_changed() => {}
            () = tries.next() => {}
        }
    }
}

/// Whether a Bundle that is ignored is of before the restore, and so is what its agent obeys.
fn is_due(bundle: &Observed, term: Term) -> bool {
    let obeyed = bundle.status.as_ref().and_then(|status| status.epoch);
    let before = |epoch: Option<i64>| epoch.unwrap_or(0) <= term.confirmed;
    bundle.is_ignored() && before(bundle.spec.epoch) && before(obeyed)
}

/// Only this very Bundle, as it was seen: of one that changed meanwhile the word is on its way, and it is looked at again. Whether it
/// was written.
async fn raise(client: Client, bundle: Arc<Observed>, term: Term) -> Result<bool, kube::Error> {
    let api: Api<Bundle> = Api::namespaced(client, &bundle.namespace);
    let patch =
        json!({"metadata": {"resourceVersion": bundle.resource_version}, "spec": {"epoch": term.epoch}});
    let (params, patch) = (writes::patch(), Patch::Merge(patch));
    match api.patch(&bundle.name, &params, &patch).await {
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(false),
        answer => answer.map(|_| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::testing::{api_server, bundle, bundles_in, refusal};
    use kube::{
        ResourceExt,
        api::{DeleteParams, PostParams},
        client::Body,
    };
    use roundhouse_api::{
        bundle::{BundleSpec, BundleStatus, OLD_EPOCH, OLD_GENERATION},
        condition::{self, Status, Verdict},
    };
    use std::{
        collections::BTreeMap,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
        time::Duration,
    };

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

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_tried_again_ever_more_rarely_and_what_was_overtaken_is_not() {
        for (code, tries) in [(503, 9..=12), (409, 1..=1), (404, 1..=1)] {
            let asked = Arc::new(AtomicU32::new(0));
            let counts = asked.clone();
            let service = tower::service_fn(move |_: http::Request<Body>| {
                counts.fetch_add(1, Ordering::Relaxed);
                async move { Ok::<_, kube::Error>(refusal(code, "no")) }
            });
            let cache = Cache::default();
            let mut ignored = bundle(&("default".to_owned(), "web".to_owned()));
            ignored.metadata.namespace = Some("cluster-c1".to_owned());
            ignored.metadata.generation = Some(2);
            ignored.metadata.resource_version = Some("7".to_owned());
            ignored.status = Some(ignores(OLD_GENERATION, Some(1), 2));
            cache.put_bundle(Observed::of(ignored).unwrap());
            let term = Term {
                epoch: 1_002,
                confirmed: 1_001,
            };
            let client = Client::new(service, "default");
            // A wake-up for something else tries nothing sooner.
            let other = async {
                for n in 0..100 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let mut other = bundle(&("default".to_owned(), "other".to_owned()));
                    other.metadata.namespace = Some("cluster-c2".to_owned());
                    other.metadata.generation = Some(2);
                    other.metadata.resource_version = Some(n.to_string());
                    other.status = Some(ignores(OLD_EPOCH, Some(9_000), 2));
                    cache.put_bundle(Observed::of(other).unwrap());
                }
                std::future::pending::<()>().await;
            };
            let both = futures::future::join(go_back(client, &cache, term), other);
            assert!(
                tokio::time::timeout(Duration::from_secs(1_800), both)
                    .await
                    .is_err()
            );
            let asked = asked.load(Ordering::Relaxed);
            assert!(tries.contains(&asked), "{code}: {asked}");
        }
    }
}
