//! Labels that an agent proposes for its Cluster.

use roundhouse_api::names::label::PROPOSED;
use std::collections::BTreeMap;

/// Most labels that an agent proposes.
const MAX: usize = 16;
/// The longest name and the longest value of a label.
const MAX_PART: usize = 63;

/// Labels below `agent.roundhouse.dev/`, at most 16, all valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(BTreeMap<String, String>);

/// Why a label cannot be proposed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// It has no value.
    #[error("label {0:?} is not of the form KEY=VALUE")]
    Form(String),
    /// An agent may not say so.
    #[error(
        "label {0:?}: an agent proposes labels below {PROPOSED} only; use a key without a prefix, or label the Cluster on the hub"
    )]
    Prefix(String),
    /// Kubernetes would refuse it.
    #[error(
        "label {0:?}: keys and values have at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last"
    )]
    Syntax(String),
    /// There are two of them.
    #[error("label {0:?} is given twice")]
    Twice(String),
    /// There are too many.
    #[error("{0} labels are given: at most {MAX} can be proposed")]
    TooMany(usize),
}

impl Labels {
    /// Reads labels of the form `key=value`; a key without a prefix gets that of agents.
    ///
    /// # Errors
    /// [`LabelError`] names the first that cannot be proposed.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, LabelError> {
        let mut labels = BTreeMap::new();
        for text in texts {
            let (key, value) = text
                .split_once('=')
                .ok_or_else(|| LabelError::Form(text.to_owned()))?;
            let name = key.strip_prefix(PROPOSED).unwrap_or(key);
            if name.contains('/') {
                return Err(LabelError::Prefix(key.to_owned()));
            }
            if name.is_empty() || !is_legal(name) || !is_legal(value) {
                return Err(LabelError::Syntax(text.to_owned()));
            }
            if labels
                .insert(format!("{PROPOSED}{name}"), value.to_owned())
                .is_some()
            {
                return Err(LabelError::Twice(key.to_owned()));
            }
        }
        if labels.len() > MAX {
            return Err(LabelError::TooMany(labels.len()));
        }
        Ok(Labels(labels))
    }

    /// By key, with its prefix.
    pub(super) fn get(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

/// Whether the text may be the value of a label; the name of one must not be empty, moreover.
fn is_legal(text: &str) -> bool {
    let outer = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.len() <= MAX_PART && bytes.iter().all(inner) && outer(bytes.first()) && outer(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_key_gets_the_prefix_of_agents() {
        let labels = Labels::parse(["zone=a1", "agent.roundhouse.dev/rack=", "a.b_c-d=E.f"]).unwrap();
        let expected = [("a.b_c-d", "E.f"), ("rack", ""), ("zone", "a1")];
        let expected = expected.map(|(key, value)| (format!("agent.roundhouse.dev/{key}"), value.to_owned()));
        assert_eq!(labels.get(), &BTreeMap::from(expected));
    }

    #[test]
    fn what_is_not_an_agents_to_say_is_refused() {
        let (long, many) = (
            "v".repeat(64),
            (0..17).map(|i| format!("k{i}=v")).collect::<Vec<_>>(),
        );
        let syntax = |text: &str| LabelError::Syntax(text.to_owned());
        for (text, expected) in [
            ("zone", LabelError::Form("zone".to_owned())),
            (
                "roundhouse.dev/zone=a",
                LabelError::Prefix("roundhouse.dev/zone".to_owned()),
            ),
            (
                "agent.roundhouse.dev/x/y=a",
                LabelError::Prefix("agent.roundhouse.dev/x/y".to_owned()),
            ),
            ("=a", syntax("=a")),
            ("agent.roundhouse.dev/=a", syntax("agent.roundhouse.dev/=a")),
            ("zone=-a", syntax("zone=-a")),
            ("zone=a b", syntax("zone=a b")),
            ("zone=é", syntax("zone=é")),
            (&format!("{long}=a"), syntax(&format!("{long}=a"))),
            (&format!("zone={long}"), syntax(&format!("zone={long}"))),
        ] {
            assert_eq!(Labels::parse([text]), Err(expected), "{text}");
        }
        let twice = Labels::parse(["zone=a", "agent.roundhouse.dev/zone=b"]);
        assert_eq!(
            twice,
            Err(LabelError::Twice("agent.roundhouse.dev/zone".to_owned()))
        );
        assert_eq!(
            Labels::parse(many.iter().map(String::as_str)),
            Err(LabelError::TooMany(17))
        );
        assert!(Labels::parse(many[..16].iter().map(String::as_str)).is_ok());
    }
}
