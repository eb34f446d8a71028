//! What can be wrong with a patch or with the objects it is computed from.

use crate::MAX_DEPTH;

/// Why a patch could not be computed or applied. Paths are written `spec.ports[2].port`; the root is `$`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The bytes of a document do not parse.
    #[error("the {document} object is not JSON: {reason}")]
    NotJson {
        /// Which of the documents: `desired`, `live`, `last applied`.
        document: &'static str,
        /// The parser's message, with line and column.
        reason: String,
    },
    /// A value has another JSON type than its place asks for.
    #[error("{path}: expected {expected}, found {found}")]
    WrongType {
        /// Where.
        path: String,
        /// The JSON type that belongs there.
        expected: &'static str,
        /// The JSON type that is there.
        found: &'static str,
    },
    /// A document nests deeper than [`MAX_DEPTH`].
    #[error("{path}: nested deeper than {MAX_DEPTH} levels")]
    TooDeep {
        /// Where the limit was passed.
        path: String,
    },
    /// An element of a list that is merged by key lacks the key.
    #[error("{path}: element has no merge key {key:?}; every element of this list needs one")]
    MissingMergeKey {
        /// The element.
        path: String,
        /// The field that identifies elements of this list.
        key: String,
    },
    /// A directive of a strategic merge patch has not the form it must have.
    #[error("{path}: {reason}")]
    BadDirective {
        /// Where the directive is.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The fields that a patch keeps (`$retainKeys`) are not all that it sets.
    #[error("{path}: {name} is set by the patch and must be listed too")]
    NotRetained {
        /// Where the directive is.
        path: String,
        /// The field that is missing.
        name: String,
    },
    /// A list that would be merged holds lists.
    #[error("{path}: expected a list of objects or of scalars, found a list")]
    ListOfLists {
        /// Where.
        path: String,
    },
    /// What a directive of a strategic merge patch asks for cannot be done there.
    #[error("{path}: {reason}")]
    Impossible {
        /// Where.
        path: String,
        /// Why not.
        reason: String,
    },
    /// The desired object is not the live one: its identity differs.
    #[error(
        "{path}: {from} would become {to}; apiVersion, kind and metadata.name of an object cannot change, delete it and create the other"
    )]
    IdentityChanged {
        /// `apiVersion`, `kind` or `metadata.name`.
        path: &'static str,
        /// The live value, as JSON.
        from: String,
        /// The desired value, as JSON.
        to: String,
    },
    /// A JSON patch (RFC 6902) is malformed, or one of its operations does not apply.
    #[error("{path}: {reason}")]
    JsonPatch {
        /// The operation's path, or `$` when the patch as a whole is malformed.
        path: String,
        /// The operation, by ordinal, and why it does not apply.
        reason: String,
    },
}
