//! P14: decisions are deterministic: the same inputs give the same bytes. That a whole run replays from its seed is for whoever
//! runs it twice to see.
//!
//! The hub tells the inputs itself. What is stored when the Decision arrives is no measure: a label that was set meanwhile is
//! there, and was not decided on.

use super::{
    model::DECISIONS,
    promise::{Check, Found, Promise},
};
use crate::{
    application::Said,
    simulate::{HUB, trace::Object},
};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Same {
    /// Hash of the inputs -> hash of the decision.
    decided: BTreeMap<String, String>,
}

impl Check for Same {
    fn said(&mut self, said: &Said, found: &mut Found<'_>) {
        let Said::Decided(decided) = said else {
            return;
        };
        if self.decided.contains_key(&decided.inputs) {
            found.judges(Promise::P14);
        }
        let before = self.decided.entry(decided.inputs.clone());
        let before = before.or_insert_with(|| decided.decision.clone());
        if *before != decided.decision {
            let object = Object::new(HUB, DECISIONS, &decided.namespace, &decided.name);
            let expected = format!("the decision {before} that the same inputs gave before");
            found.broke(Promise::P14, object, expected, decided.decision.clone());
        }
    }
}
