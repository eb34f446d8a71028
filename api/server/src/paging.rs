//! `continue` tokens.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// Where a list goes on: after which object, in the state of which revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    #[serde(rename = "rv")]
    pub(crate) revision: u64,
    #[serde(rename = "ns")]
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Token {
    /// A token that goes on after an object.
    pub(crate) fn new(revision: u64, namespace: &str, name: &str) -> Self {
        Self {
            revision,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
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
            let token = Token::new(revision, &namespace, &name);
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
