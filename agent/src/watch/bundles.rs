//! The watch of the Bundles in the agent's namespace on the hub.

use crate::bundle::{Held, Presence};
use crate::watch::resume::{Known, Seen};
use kube::runtime::watcher;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bundles of one page of a list: each may weigh half a mebibyte.
pub(crate) const PAGE: u32 = 20;

/// The Bundles as far as the hub has told. Only a complete list says that one is missing, and missing is not deleted.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    known: BTreeMap<String, Arc<Held>>,
    /// Names seen since a list began; `None` when none is under way.
    listing: Option<BTreeSet<String>>,
    /// Whether a list was ever complete.
    complete: bool,
}

/// What an event changes.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// Bundles whose state changed.
    pub(crate) presences: Vec<(String, Presence)>,
    /// A list just became complete.
    pub(crate) listed: bool,
}

impl Bundles {
    /// Takes an event in.
    pub(crate) fn take(&mut self, event: watcher::Event<Seen>) -> Change {
        let mut change = Change::default();
        match event {
            watcher::Event::Init => self.listing = Some(BTreeSet::new()),
            watcher::Event::InitApply(Seen::Whole(bundle)) => {
                let held = Held::of(bundle.0);
                if let Some(seen) = &mut self.listing {
                    seen.insert(held.name.clone());
                }
                self.present(held, &mut change);
            }
            // What is as it was is no news.
            watcher::Event::InitApply(Seen::Same(name)) => {
                if let Some(seen) = &mut self.listing {
                    seen.insert(name);
                }
            }
            watcher::Event::InitDone => {
                let seen = self.listing.take().unwrap_or_default();
                let missing: Vec<String> = self
                    .known
                    .keys()
                    .filter(|name| !seen.contains(*name))
                    .cloned()
                    .collect();
                for name in missing {
                    self.known.remove(&name);
                    change.presences.push((name, Presence::Missing));
                }
                if !self.complete {
                    self.complete = true;
                    // Nothing was passed on before the first list was complete.
                    let all = self.known.iter();
                    change.presences = all
                        .map(|(n, held)| (n.clone(), Presence::Present(Arc::clone(held))))
                        .collect();
                }
                change.listed = true;
            }
            watcher::Event::Apply(Seen::Whole(bundle)) => self.present(Held::of(bundle.0), &mut change),
            watcher::Event::Delete(Seen::Whole(bundle)) => {
                let held = Held::of(bundle.0);
                // A late event about a predecessor says nothing about the Bundle that is there.
                let current = self
                    .known
                    .get(&held.name)
                    .is_none_or(|known| known.uid == held.uid);
                if current {
                    self.known.remove(&held.name);
                    change
                        .presences
                        .push((held.name.clone(), Presence::Deleted(Arc::new(held))));
                }
            }
            // Only a list says so.
            watcher::Event::Apply(Seen::Same(_)) | watcher::Event::Delete(Seen::Same(_)) => {}
        }
        if !self.complete {
            change.presences.clear();
        }
        change
    }

    /// What is known, to be compared with what a list says; `None` before anything was told.
    pub(crate) fn known(&self) -> Option<Known> {
        let known = self.known.iter();
        let known: Known = known.map(|(name, held)| (name.clone(), held.metadata)).collect();
        // Once a list was complete, nothing is known to be there: a list that has something may be of before.
        Some(known).filter(|known| self.complete || !known.is_empty())
    }

    fn present(&mut self, held: Held, change: &mut Change) {
        let held = match self.known.get(&held.name) {
            // An older state than the one that is known, out of a stale cache. In a list, which is of the latest state, it is
            // none: the hub went back in time, and the fence says so to it. A newer epoch counts whatever its generation: the
            // hub was restored, and that was confirmed.
            Some(known)
                if self.listing.is_none()
                    && known.uid == held.uid
                    && held.generation < known.generation
                    && held.epoch <= known.epoch =>
            {
                tracing::debug!(
                    bundle = held.name,
                    "an older generation than the one seen is ignored"
                );
                return;
            }
            known => {
                let mut held = held;
                let version = |held: &Held| held.resource_version.parse::<u64>().ok();
                let is_older = known.is_some_and(|known| version(&held) < version(known));
                held.put_back = self.listing.is_some() && is_older;
                Arc::new(held)
            }
        };
        self.known.insert(held.name.clone(), Arc::clone(&held));
        change
            .presences
            .push((held.name.clone(), Presence::Present(held)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use watcher::Event;

    fn object(name: &str, uid: &str, generation: i64) -> Seen {
        let bundle =
            serde_json::from_value(json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
            "metadata": {"name": name, "uid": uid, "generation": generation, "resourceVersion": "1"},
            "spec": {"workload": {"manifests": []}}}));
        Seen::Whole(Box::new(bundle.unwrap()))
    }

    fn words(change: &Change) -> Vec<String> {
        let word = |presence: &Presence| match presence {
            Presence::Present(held) => format!("present {}", held.generation),
            Presence::Deleted(_) => "deleted".to_owned(),
            Presence::Missing => "missing".to_owned(),
        };
        change
            .presences
            .iter()
            .map(|(name, presence)| format!("{name} {}", word(presence)))
            .collect()
    }

    fn listed(bundles: &mut Bundles, objects: &[Seen]) -> Vec<String> {
        bundles.take(Event::Init);
        for object in objects {
            bundles.take(Event::InitApply(object.clone()));
        }
        words(&bundles.take(Event::InitDone))
    }

    #[test]
    fn nothing_is_said_before_the_first_list_is_complete() {
        let mut bundles = Bundles::default();
        assert!(bundles.take(Event::Init).presences.is_empty());
        assert!(
            bundles
                .take(Event::InitApply(object("a", "1", 1)))
                .presences
                .is_empty()
        );
        let change = bundles.take(Event::InitDone);
        assert!(change.listed);
        assert_eq!(words(&change), ["a present 1"]);
    }

    #[test]
    fn a_list_that_breaks_off_makes_nothing_missing() {
        let mut bundles = Bundles::default();
        listed(&mut bundles, &[object("a", "1", 1), object("b", "2", 1)]);
        bundles.take(Event::Init);
        bundles.take(Event::InitApply(object("a", "1", 1)));
        assert_eq!(
            listed(&mut bundles, &[object("a", "1", 1), object("b", "2", 1)]),
            [""; 0]
        );
        assert_eq!(listed(&mut bundles, &[object("a", "1", 1)]), ["b missing"]);
    }

    #[test]
    fn an_older_generation_in_a_list_is_told() {
        let mut bundles = Bundles::default();
        listed(&mut bundles, &[object("a", "1", 5)]);
        bundles.take(Event::Init);
        let change = bundles.take(Event::InitApply(object("a", "1", 4)));
        assert_eq!(words(&change), ["a present 4"]);
        assert_eq!(words(&bundles.take(Event::InitDone)), [""; 0]);
    }

    #[test]
    fn an_older_generation_and_a_late_delete_are_ignored() {
        let mut bundles = Bundles::default();
        listed(&mut bundles, &[object("a", "1", 5)]);
        assert!(
            bundles
                .take(Event::Apply(object("a", "1", 4)))
                .presences
                .is_empty()
        );
        assert_eq!(
            words(&bundles.take(Event::Apply(object("a", "2", 1)))),
            ["a present 1"]
        );
        assert!(
            bundles
                .take(Event::Delete(object("a", "1", 5)))
                .presences
                .is_empty()
        );
        assert_eq!(
            words(&bundles.take(Event::Delete(object("a", "2", 1)))),
            ["a deleted"]
        );
    }

    #[test]
    fn what_is_as_it_was_is_no_news_and_not_missing() {
        let mut bundles = Bundles::default();
        assert_eq!(bundles.known(), None);
        listed(&mut bundles, &[object("a", "1", 1), object("b", "2", 1)]);
        assert_eq!(bundles.known().unwrap().keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listed(&mut bundles, &[Seen::Same("a".to_owned())]), ["b missing"]);
        assert_eq!(listed(&mut bundles, &[Seen::Same("a".to_owned())]), [""; 0]);
        assert_eq!(listed(&mut bundles, &[]), ["a missing"]);
        assert_eq!(bundles.known(), Some(Known::new()), "there is nothing");
    }
}
