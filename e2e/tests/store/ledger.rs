//! What was acknowledged, and what watchers saw.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};

/// An object's content; `None` if it is gone.
pub(crate) type Content = Option<String>;

/// All that anybody was told, by revision and by object.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// What each revision made, from answers and from watches.
    revisions: BTreeMap<u64, (String, String)>,
    acknowledged: BTreeMap<u64, String>,
    /// The last acknowledged content of each object, and what later requests without an answer may have made of it.
    objects: HashMap<String, (Content, Vec<Content>)>,
}

impl Ledger {
    /// A write was answered. A removal's answer has no revision.
    pub(crate) fn acknowledged(&self, name: &str, revision: Option<u64>, content: Content) {
        let mut told = self.0.lock();
        if let (Some(revision), Some(content)) = (revision, &content) {
            told.made(revision, name, content);
            let before = told.acknowledged.insert(revision, name.to_owned());
            assert_eq!(before, None, "revision {revision} was given to two writes");
        }
        told.objects.insert(name.to_owned(), (content, vec![]));
    }

    /// A write got no answer: it may have happened.
    pub(crate) fn unknown(&self, name: &str, content: Content) {
        let mut told = self.0.lock();
        told.objects.entry(name.to_owned()).or_default().1.push(content);
    }

    /// What an object is after a restart must be what was acknowledged last, or what an unanswered write made of it.
    pub(crate) fn found(&self, name: &str, revision: Option<u64>, content: Content) {
        let mut told = self.0.lock();
        if let (Some(revision), Some(content)) = (revision, &content) {
            told.made(revision, name, content);
        }
        let (acknowledged, maybe) = told.objects.get(name).cloned().unwrap_or_default();
        assert!(
            content == acknowledged || maybe.contains(&content),
            "{name} is {content:?}; {acknowledged:?} was acknowledged, and {maybe:?} may have happened since"
        );
        told.objects.insert(name.to_owned(), (content, vec![]));
    }

    /// A watcher was told that a revision made this of an object.
    pub(crate) fn seen(&self, revision: u64, name: &str, content: &str) {
        self.0.lock().made(revision, name, content);
    }

    /// Acknowledged writes with their revisions.
    pub(crate) fn acknowledgements(&self) -> BTreeMap<u64, String> {
        self.0.lock().acknowledged.clone()
    }
}

impl Told {
    fn made(&mut self, revision: u64, name: &str, content: &str) {
        let made = (name.to_owned(), content.to_owned());
        let known = self.revisions.entry(revision).or_insert_with(|| made.clone());
        assert_eq!(known, &made, "revision {revision} was given out twice");
    }
}
