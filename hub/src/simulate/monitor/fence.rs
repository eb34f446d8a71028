//! P4: one hub writes. Once a higher epoch is in the Lease, nothing of an earlier term is stored; and nothing at all as long as
//! nobody has confirmed that the hub goes on from a backup.

use super::{
    commit::Commit,
    model::{LEASES, Model},
    promise::{Check, Found, Promise},
};
use crate::{leader, simulate::HUB};

#[derive(Debug, Default)]
pub(super) struct Fence;

impl Check for Fence {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        // Whoever stands for election writes the Lease, and makes the namespace that it is in.
        let table = &*commit.key.table;
        if &*commit.server != HUB
            || table == LEASES
            || (table, &*commit.key.name) == ("namespaces", leader::NAMESPACE)
        {
            return;
        }
        let Some(who) = commit.by().filter(|who| who.is_hub()) else {
            return;
        };
        found.judges(Promise::P4);
        if model.unconfirmed {
            let expected = "no write by a restored hub before somebody has confirmed it";
            found.broke(Promise::P4, commit.object(), expected, format!("one by {who}"));
            return;
        }
        let term = model.terms.get(who).copied();
        if term != Some(model.epoch) {
            let expected = format!("writes of epoch {}, the highest in the Lease", model.epoch);
            let term = term.map_or("no epoch at all".to_owned(), |term| format!("epoch {term}"));
            found.broke(
                Promise::P4,
                commit.object(),
                expected,
                format!("a write by {who} of {term}"),
            );
        }
    }
}
