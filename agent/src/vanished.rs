//! The bundles that vanished from the hub without evidence that their objects may go: for people, who else would not see
//! that an agent holds objects that nobody asks for.

use std::collections::BTreeSet;
use tokio::sync::watch::{Receiver, Sender};

/// Names of bundles whose objects are held; what changes is news for who reports it.
#[derive(Debug, Default)]
pub(crate) struct Vanished(Sender<BTreeSet<String>>);

impl Vanished {
    /// Notes whether the objects of a bundle are held.
    pub(crate) fn note(&self, bundle: &str, held: bool) {
        self.0.send_if_modified(|names| match held {
            true => names.insert(bundle.to_owned()),
            false => names.remove(bundle),
        });
    }

    /// Their names, now and whenever they change.
    pub(crate) fn watch(&self) -> Receiver<BTreeSet<String>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_it_was_is_no_news() {
        let vanished = Vanished::default();
        let mut seen = vanished.watch();
        let mut news = |bundle: &str, held: bool| {
            vanished.note(bundle, held);
            let news = seen.has_changed().unwrap();
            (news, seen.borrow_and_update().len())
        };
        assert_eq!(news("a", false), (false, 0));
        assert_eq!(news("a", true), (true, 1));
        assert_eq!(news("a", true), (false, 1));
        assert_eq!(news("b", true), (true, 2));
        assert_eq!(news("a", false), (true, 1));
    }
}
