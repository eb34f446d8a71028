//! What became of all Bundles, by cluster and by application: kept as they change, so that nobody counts a million of them
//! to say how a fleet fares.

use crate::dispatch::Observed;
use roundhouse_api::bundle::BundlePhase;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Namespace and name of an application.
pub type Application = (String, String);

/// Sums over some Bundles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Bundles.
    pub bundles: u64,
    /// Of those, the ones whose own agent reports their present content ready.
    pub ready: u64,
    /// The ones of which an agent reports a failure.
    pub failed: u64,
    /// Objects in them, as the reports of the present content say.
    pub objects: u64,
    /// Replicas that their manifests ask for.
    pub replicas: u64,
}

impl Tally {
    /// What one Bundle adds to the sums.
    pub fn of(bundle: &Observed) -> Tally {
        // What people write by hand needs no hash; its report is of the present spec as well.
        let by_hand = bundle.spec.hash.is_none();
        let report = bundle
            .own_report()
            .or_else(|| bundle.present_report().filter(|_| by_hand));
        let is = |phase| u64::from(report.and_then(|report| report.phase) == Some(phase));
        let counts = report.and_then(|report| report.counts);
        Tally {
            bundles: 1,
            ready: is(BundlePhase::Ready),
            failed: is(BundlePhase::Failed),
            objects: counts.map_or(0, |counts| u64::from(counts.total)),
            replicas: bundle.replicas,
        }
    }

    /// With something else that it was the sum of before: what is taken away is in it, or the sum stays at nothing.
    fn exchange(&mut self, before: Tally, after: Tally) {
        let one = |sum: &mut u64, before: u64, after: u64| *sum = (*sum + after).saturating_sub(before);
        one(&mut self.bundles, before.bundles, after.bundles);
        one(&mut self.ready, before.ready, after.ready);
        one(&mut self.failed, before.failed, after.failed);
        one(&mut self.objects, before.objects, after.objects);
        one(&mut self.replicas, before.replicas, after.replicas);
    }
}

/// The sums over all Bundles, over those of each cluster, and over those of each application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub all: Tally,
    /// By cluster; one without Bundles is not there.
    pub clusters: BTreeMap<String, Tally>,
    /// By application; those that nobody dispatched are of none.
    pub applications: BTreeMap<Application, Tally>,
}

impl Counts {
    /// Takes in that a Bundle of a cluster, and of an application if it has one, is there.
    pub fn add(&mut self, cluster: &str, application: Option<&Application>, tally: Tally) {
        self.exchange(cluster, application, Tally::default(), tally);
    }

    /// Takes in that it is not there any more, with what it was added with.
    pub fn remove(&mut self, cluster: &str, application: Option<&Application>, tally: Tally) {
        self.exchange(cluster, application, tally, Tally::default());
    }

    fn exchange(&mut self, cluster: &str, application: Option<&Application>, before: Tally, after: Tally) {
        self.all.exchange(before, after);
        exchange(&mut self.clusters, cluster, before, after);
        if let Some(application) = application {
            exchange(&mut self.applications, application, before, after);
        }
    }
}

/// Names are made owned only where they are new.
fn exchange<K, Q>(tallies: &mut BTreeMap<K, Tally>, key: &Q, before: Tally, after: Tally)
where
    K: Ord + std::borrow::Borrow<Q>,
    Q: Ord + ToOwned<Owned = K> + ?Sized,
{
    match tallies.get_mut(key) {
        Some(tally) => {
            tally.exchange(before, after);
            if tally.bundles == 0 {
                tallies.remove(key);
            }
        }
        None if after.bundles > 0 => {
            tallies.insert(key.to_owned(), after);
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn tally(ready: u64, objects: u64) -> Tally {
        Tally {
            bundles: 1,
            ready,
            failed: 1 - ready,
            objects,
            replicas: objects * 2,
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_counting_anew_gives(
            changes in prop::collection::vec((0..4_u8, 0..4_u8, prop::option::of((0..2_u64, 0..9_u64))), 0..200)
        ) {
            let mut kept = Counts::default();
            let mut there: BTreeMap<(String, Application), Tally> = BTreeMap::new();
            for (cluster, application, now) in changes {
                let (cluster, application) =
                    (format!("c{cluster}"), ("ns".to_owned(), format!("a{application}")));
                let key = (cluster.clone(), application.clone());
                if let Some(before) = there.remove(&key) {
                    kept.remove(&cluster, Some(&application), before);
                }
                if let Some((ready, objects)) = now {
                    let tally = tally(ready, objects);
                    kept.add(&cluster, Some(&application), tally);
                    there.insert(key, tally);
                }
                let mut anew = Counts::default();
                for ((cluster, application), tally) in &there {
                    anew.add(cluster, Some(application), *tally);
                }
                prop_assert_eq!(&kept, &anew);
            }
        }
    }

    #[test]
    fn what_is_written_by_hand_is_ready_when_its_agent_says_so_of_its_present_spec() {
        let of = |hash: Value, generation: u64, reported: Value| {
            let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
                "metadata": {"name": "by-hand", "namespace": "cluster-c1", "generation": generation},
                "spec": {"workload": {"manifests": []}, "hash": hash},
                "status": {"observedGeneration": 2, "hash": reported, "phase": "Ready",
                    "counts": {"total": 3, "applied": 3, "ready": 3, "failed": 0}}});
            let tally = Tally::of(&Observed::of(serde_json::from_value(bundle).unwrap()).unwrap());
            (tally.ready, tally.objects)
        };
        assert_eq!(of(Value::Null, 2, Value::Null), (1, 3));
        assert_eq!(
            of(Value::Null, 3, Value::Null),
            (0, 0),
            "of what was there before"
        );
        assert_eq!(of(json!("h1"), 2, json!("h1")), (1, 3));
        assert_eq!(of(json!("h1"), 2, json!("h0")), (0, 0), "of another content");
    }

    #[test]
    fn what_nobody_dispatched_counts_for_its_cluster_alone() {
        let mut counts = Counts::default();
        counts.add("c1", None, tally(1, 3));
        assert_eq!(counts.clusters["c1"], tally(1, 3));
        assert_eq!((counts.all, counts.applications.len()), (tally(1, 3), 0));
        counts.remove("c1", None, tally(1, 3));
        assert_eq!(counts, Counts::default());
    }
}
