//! Secret values are never shown: a salted digest stands for each, so that equal values look equal within one preview.

use crate::path::FieldPath;
use crate::preview::difference::Shown;
use roundhouse_api::hash;
use serde_json::Value;

/// Hex digits of a digest that are shown.
const DIGITS: usize = 12;

/// How the values of one object are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Veil<'a> {
    /// The object is a Secret.
    pub(crate) secret: bool,
    pub(crate) salt: &'a [u8],
}

impl Veil<'_> {
    /// Whether the values at a path are hidden. Of a Secret everything but its type, whether it is immutable, and
    /// metadata: a field that we do not know may hold a value too.
    pub(crate) fn hides(&self, path: &FieldPath) -> bool {
        self.secret && !matches!(path.head(), Some("type" | "immutable" | "metadata"))
    }

    /// What is shown of a value.
    pub(crate) fn show(&self, path: &FieldPath, value: &Value) -> Shown {
        if !self.hides(path) {
            return Shown::Value(value.clone());
        }
        let mut bytes = self.salt.to_vec();
        bytes.extend(hash::canonical(value));
        let mut digest = hash::sha256(&bytes);
        digest.truncate(DIGITS);
        Shown::Digest(digest)
    }
}
