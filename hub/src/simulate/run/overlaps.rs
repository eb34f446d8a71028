//! How many of the same are on at once.

use std::collections::BTreeMap;

/// What is on, by name, and how often: one that ends leaves those that overlap it.
#[derive(Debug, Default)]
pub(super) struct Overlaps(BTreeMap<String, u32>);

impl Overlaps {
    /// One more is on. Whether it is the first.
    pub(super) fn begin(&mut self, what: &str) -> bool {
        let times = self.0.entry(what.to_owned()).or_default();
        *times += 1;
        *times == 1
    }

    /// One ends. How many are left; `None` if none was on.
    pub(super) fn end(&mut self, what: &str) -> Option<u32> {
        let times = self.0.get_mut(what)?;
        *times -= 1;
        let left = *times;
        if left == 0 {
            self.0.remove(what);
        }
        Some(left)
    }

    /// What is on, and how often; nothing is any more.
    pub(super) fn take(&mut self) -> BTreeMap<String, u32> {
        std::mem::take(&mut self.0)
    }

    /// The names of what is on, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_ends_it() {
        let mut on = Overlaps::default();
        assert_eq!(on.end("a"), None);
        assert_eq!((on.begin("a"), on.begin("a"), on.begin("b")), (true, false, true));
        assert_eq!((on.end("a"), on.end("a"), on.end("a")), (Some(1), Some(0), None));
        assert_eq!(on.names().collect::<Vec<_>>(), ["b"]);
        assert_eq!(on.take(), [("b".to_owned(), 1)].into());
        assert_eq!(on.names().count(), 0);
    }
}
