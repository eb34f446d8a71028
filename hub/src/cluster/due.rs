//! When each cluster is to be looked at, in that order: with a thousand clusters a controller asks hundreds of times each second
//! what is next.

use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// The times at which clusters are due.
#[derive(Debug, Default)]
pub(super) struct Due {
    times: BTreeMap<String, Timestamp>,
    order: BTreeSet<(Timestamp, String)>,
}

impl Due {
    /// Makes a cluster due at `at`, whenever it was.
    pub(super) fn set(&mut self, cluster: String, at: Timestamp) {
        self.remove(&cluster);
        self.order.insert((at, cluster.clone()));
        self.times.insert(cluster, at);
    }

    /// Makes a cluster due at `at`, or when it is due already if that is earlier.
    pub(super) fn by(&mut self, cluster: String, at: Timestamp) {
        if self.times.get(&cluster).is_none_or(|due| at < *due) {
            self.set(cluster, at);
        }
    }

    /// The cluster is due no more.
    pub(super) fn remove(&mut self, cluster: &str) {
        if let Some((cluster, at)) = self.times.remove_entry(cluster) {
            self.order.remove(&(at, cluster));
        }
    }

    /// When the first one is due that is none of `but`.
    pub(super) fn first(&self, but: &BTreeSet<String>) -> Option<Timestamp> {
        let mut others = self.order.iter().filter(|(_, cluster)| !but.contains(cluster));
        others.next().map(|(at, _)| *at)
    }

    /// Those that are due at `now`, without `but`, the earliest first.
    pub(super) fn at<'a>(
        &'a self,
        now: Timestamp,
        but: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = &'a String> {
        let due = self.order.iter().take_while(move |(at, _)| *at <= now);
        due.map(|(_, cluster)| cluster)
            .filter(|cluster| !but.contains(*cluster))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_earliest_comes_first_and_each_is_there_once() {
        let mut due = Due::default();
        for (cluster, second) in [("a", 30), ("b", 10), ("c", 20)] {
            due.set(cluster.to_owned(), at(second));
        }
        due.by("a".to_owned(), at(5));
        due.by("b".to_owned(), at(40));
        due.set("c".to_owned(), at(50));
        let none = BTreeSet::new();
        assert_eq!(due.at(at(10), &none).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(due.at(at(4), &none).count(), 0);
        assert_eq!(due.first(&none), Some(at(5)));
        let running = BTreeSet::from(["a".to_owned()]);
        assert_eq!(due.first(&running), Some(at(10)));
        assert_eq!(due.at(at(60), &running).collect::<Vec<_>>(), ["b", "c"]);
        for cluster in ["a", "b", "c", "d"] {
            due.remove(cluster);
        }
        assert_eq!((due.first(&none), due.at(at(60), &none).count()), (None, 0));
    }
}
