//! The time from dispatch to ready, Bundle by Bundle.
//!
//! Only Bundles that are under way are remembered: one entry each, gone when the agent reports ready or the Bundle is gone.

use crate::dispatch::Observed;
use roundhouse_api::bundle::BundlePhase;
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;

/// Bundles under way: namespace and name → the hash of what was dispatched, and when the hub saw it first.
#[derive(Debug, Default)]
pub(crate) struct Lag(HashMap<(String, String), (String, Instant)>);

impl Lag {
    /// Takes in that a Bundle is `new` where there was `held`. Returns how long it took if it is ready now.
    pub(crate) fn seen(&mut self, held: Option<&Observed>, new: &Observed, now: Instant) -> Option<Duration> {
        let key = (new.namespace.clone(), new.name.clone());
        let Some(hash) = new.spec.hash.as_ref().filter(|_| !new.deleting) else {
            self.0.remove(&key);
            return None;
        };
        let same = |held: &Observed| held.uid == new.uid && held.spec.hash.as_ref() == Some(hash);
        if !held.is_some_and(same) {
            self.0.insert(key.clone(), (hash.clone(), now));
        }
        let ready = new.own_report().and_then(|report| report.phase) == Some(BundlePhase::Ready);
        if !ready {
            return None;
        }
        let (dispatched, at) = self.0.remove(&key)?;
        (dispatched == *hash).then(|| now.duration_since(at))
    }

    /// A Bundle is gone.
    pub(crate) fn gone(&mut self, key: &(String, String)) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::bundle::{BundleSpec, BundleStatus};
    use std::sync::Arc;

    fn bundle(hash: &str, generation: i64, report: Option<(&str, i64, BundlePhase)>) -> Observed {
        Observed {
            namespace: "cluster-c1".to_owned(),
            name: "ns.web".to_owned(),
            uid: "u1".to_owned(),
            generation,
            spec: Arc::new(BundleSpec {
                hash: Some(hash.into()),
                ..BundleSpec::default()
            }),
            status: report.map(|(hash, generation, phase)| {
                Arc::new(BundleStatus {
                    hash: Some(hash.into()),
                    observed_generation: Some(generation),
                    phase: Some(phase),
                    ..BundleStatus::default()
                })
            }),
            ..Observed::default()
        }
    }

    #[test]
    fn only_the_report_on_what_was_dispatched_counts_and_only_once() {
        use BundlePhase::{Progressing, Ready};
        let (start, mut lag) = (Instant::now(), Lag::default());
        let steps = [
            (bundle("a", 1, None), None),
            (bundle("a", 1, Some(("a", 1, Progressing))), None),
            (bundle("a", 1, Some(("a", 1, Ready))), Some(2)),
            // Ready again without anything dispatched in between: nothing to measure.
            (bundle("a", 1, Some(("a", 1, Progressing))), None),
            (bundle("a", 1, Some(("a", 1, Ready))), None),
            // A new content, and a report that is about the old one.
            (bundle("b", 2, Some(("a", 1, Ready))), None),
            (bundle("b", 2, Some(("b", 2, Ready))), Some(1)),
        ];
        let mut held: Option<Observed> = None;
        for (second, (new, expected)) in (0..).zip(steps) {
            let now = start + Duration::from_secs(second);
            let took = lag.seen(held.as_ref(), &new, now).map(|took| took.as_secs());
            assert_eq!(took, expected, "after {second} s");
            held = Some(new);
        }
        assert!(lag.0.is_empty(), "what is ready is not remembered");
    }

    #[test]
    fn a_bundle_that_goes_is_forgotten() {
        let (now, mut lag) = (Instant::now(), Lag::default());
        lag.seen(None, &bundle("a", 1, None), now);
        lag.gone(&("cluster-c1".to_owned(), "ns.web".to_owned()));
        lag.seen(None, &bundle("a", 1, None), now);
        let leaving = Observed {
            deleting: true,
            ..bundle("a", 1, None)
        };
        lag.seen(None, &leaving, now);
        assert!(lag.0.is_empty());
    }
}
