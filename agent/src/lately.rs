//! What happened so lately that requests of then may still arrive, or arrive once more.

use roundhouse_api::late::ARRIVES_WITHIN;
use std::collections::BTreeMap;
use tokio::time::Instant;

/// The last of what happened to each, and when.
#[derive(Debug)]
pub(crate) struct Lately<K, V> {
    all: BTreeMap<K, (Instant, V)>,
    /// How many there were when the old ones were dropped last.
    kept: usize,
}

impl<K, V> Default for Lately<K, V> {
    fn default() -> Self {
        Lately {
            all: BTreeMap::new(),
            kept: 0,
        }
    }
}

impl<K: Ord, V> Lately<K, V> {
    /// It happened now; what happened before.
    pub(crate) fn note(&mut self, key: K, value: V) -> Option<(Instant, V)> {
        self.put(key, (Instant::now(), value))
    }

    /// It happened then; what happened before.
    pub(crate) fn put(&mut self, key: K, what: (Instant, V)) -> Option<(Instant, V)> {
        let before = self.all.insert(key, what);
        // Not with every one: an agent may make ten thousand objects at a time.
        if self.all.len() > 2 * self.kept + 1_000 {
            self.all.retain(|_, (at, _)| at.elapsed() < ARRIVES_WITHIN);
            self.kept = self.all.len();
        }
        before
    }

    /// What happened, lately or not.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.all.get_mut(key).map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.all.remove(key);
    }

    /// What happened, if it was lately.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (at, value) = self.all.get(key)?;
        (at.elapsed() < ARRIVES_WITHIN).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_long_past_is_not_told_and_not_kept() {
        let mut lately = Lately::default();
        for key in 0..1_000 {
            assert!(lately.note(key, ()).is_none());
        }
        tokio::time::advance(ARRIVES_WITHIN).await;
        assert_eq!(lately.get(&0), None);
        assert!(lately.note(1_000, ()).is_none());
        assert_eq!((lately.get(&1_000), lately.all.len()), (Some(&()), 1));
    }
}
