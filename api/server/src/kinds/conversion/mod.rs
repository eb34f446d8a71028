//! Kinds that are served in several versions or groups and stored in one.

mod autoscaler;
mod event;

use serde_json::Value;

pub(super) use autoscaler::AUTOSCALER_V1;
pub(super) use event::EVENT;

/// How a version that is not the stored one becomes the stored one, and back, without loss.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conversion {
    /// The group the kind is stored in.
    pub(crate) stored_group: &'static str,
    /// The table it is stored in.
    pub(crate) table: &'static str,
    /// The stored name of a field that can be selected by.
    pub(crate) stored_field: fn(&str) -> String,
    /// Whether this version shows fields of the stored one as something else, such as an annotation.
    hides: fn(&Value) -> bool,
    to_stored: fn(&mut Value),
    from_stored: fn(&mut Value),
}

impl Conversion {
    /// The object as it is stored.
    pub(crate) fn stored(&self, value: &Value) -> Value {
        let mut out = value.clone();
        (self.to_stored)(&mut out);
        out
    }

    /// What `confine` makes of a new object and the old one, both as they are stored where this version hides parts of
    /// either: who may write one part of an object does not write another one under a name that it has in this version, and
    /// what is kept is kept whole.
    pub(crate) fn confined(
        &self,
        old: Option<&Value>,
        new: Value,
        confine: impl FnOnce(Option<&Value>, Value) -> Value,
    ) -> Value {
        if !(self.hides)(&new) && !old.is_some_and(self.hides) {
            return confine(old, new);
        }
        let old = old.map(|old| self.stored(old));
        let mut out = confine(old.as_ref(), self.stored(&new));
        self.serve(&mut out);
        out
    }

    /// Makes the version asked for of a stored object.
    pub(crate) fn serve(&self, stored: &mut Value) {
        (self.from_stored)(stored);
    }
}
