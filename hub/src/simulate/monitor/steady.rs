//! P11: the steady state writes nothing but heartbeats, and lets old Events go.

use super::{
    commit::Commit,
    model::{LEASES, Model},
    promise::{Check, Found, Note, Promise},
};

#[derive(Debug, Default)]
pub(super) struct Steady {
    quiet: bool,
}

impl Check for Steady {
    fn committed(&mut self, commit: &Commit, _: &Model, found: &mut Found<'_>) {
        let table = &*commit.key.table;
        let expires = commit.after.is_none() && ["events", "events.events.k8s.io"].contains(&table);
        if self.quiet && table != LEASES && !expires {
            let by = commit.by().map_or("the server".to_owned(), ToString::to_string);
            let expected = "no write of anything but Leases";
            found.broke(
                Promise::P11,
                commit.object(),
                expected,
                format!("a write by {by}"),
            );
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, found: &mut Found<'_>) {
        match note {
            Note::Quiet => {
                found.judges(Promise::P11);
                self.quiet = true;
            }
            Note::Busy => self.quiet = false,
            _ => {}
        }
    }
}
