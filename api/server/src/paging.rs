//! `continue` tokens.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::store::Range;

/// Where a list goes on: in which collection, after which object, in the state of which revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    #[serde(rename = "rv")]
    pub(crate) revision: u64,
    /// Table that is listed.
    #[serde(rename = "of")]
    table: String,
    /// Namespace that is listed; `None` for all of them.
    #[serde(rename = "in")]
    within: Option<String>,
    #[serde(rename = "ns")]
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// How many objects of the collection went before.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(crate) passed: Option<usize>,
}

impl Token {
    /// A token that goes on after an object of a collection.
    pub(crate) fn new(
        revision: u64,
        of: &Range,
        (namespace, name): (&str, &str),
        passed: Option<usize>,
    ) -> Self {
        Self {
            revision,
            table: of.table.as_ref().to_owned(),
            within: of.namespace.as_deref().map(str::to_owned),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            passed,
        }
    }

    /// Whether it goes on in this collection.
    pub(crate) fn is_of(&self, table: &str, namespace: Option<&str>) -> bool {
        self.table == table && self.within.as_deref() == namespace
    }

    /// The opaque text clients get.
    pub(crate) fn text(&self) -> String {
        serde_json::to_vec(self)
            .map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
            .unwrap_or_default()
    }

    /// Reads a token; `None` if it is none of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tokens_come_back(revision: u64, namespace in "\\PC{0,20}", name in "\\PC{0,20}") {
            let range = Range { limit: 1, ..Range::all("maps", None) };
            let token = Token::new(revision, &range, (&namespace, &name), Some(1));
            prop_assert!(token.is_of("maps", None) && !token.is_of("maps", Some("a")) && !token.is_of("secrets", None));
            prop_assert_eq!(Token::parse(&token.text()), Some(token));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}") {
            let _ = Token::parse(&text);
        }
    }

    #[test]
    fn garbage_is_refused() {
        assert_eq!(Token::parse("garbage"), None);
        assert_eq!(Token::parse("e30"), None);
    }
}
