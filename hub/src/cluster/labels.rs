//! The labels that an agent proposes: all below one prefix, checked, bounded.

use roundhouse_api::names::label;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Most labels that are taken over from one agent, in the order of their keys.
const MOST: usize = 16;

/// What of the labels of a Cluster is to change, as a merge patch; `None` if nothing is. Labels outside of the prefix are
/// nobody's to propose and stay as they are.
pub(super) fn difference(
    present: &BTreeMap<String, String>,
    proposed: &BTreeMap<String, String>,
) -> Option<Map<String, Value>> {
    let taken: BTreeMap<&str, &str> = proposed
        .iter()
        .filter(|(key, value)| is_proposal(key, value))
        .take(MOST)
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let gone = present
        .keys()
        .filter(|key| key.starts_with(label::PROPOSED) && !taken.contains_key(key.as_str()))
        .map(|key| (key.clone(), Value::Null));
    let new = taken
        .iter()
        .filter(|(key, value)| present.get(**key).is_none_or(|there| there != *value))
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)));
    let changed: Map<String, Value> = gone.chain(new).collect();
    (!changed.is_empty()).then_some(changed)
}

/// Whether this is a label of Kubernetes below the prefix.
fn is_proposal(key: &str, value: &str) -> bool {
    let is_word = |text: &str, empty: bool| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        let outer = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = text.as_bytes();
        match bytes.is_empty() {
            true => empty,
            false => {
                bytes.len() <= 63
                    && bytes.iter().copied().all(inner)
                    && outer(bytes.first())
                    && outer(bytes.last())
            }
        }
    };
    let name = key.strip_prefix(label::PROPOSED);
    name.is_some_and(|name| is_word(name, false)) && is_word(value, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn an_agent_speaks_below_its_prefix_only() {
        let present = map(&[
            ("region", "west"),
            ("agent.roundhouse.dev/zone", "a"),
            ("agent.roundhouse.dev/old", "x"),
        ]);
        let proposed = map(&[
            ("region", "east"),
            ("agent.roundhouse.dev/zone", "b"),
            ("agent.roundhouse.dev/gpu", ""),
            ("agent.roundhouse.dev/", "empty name"),
            ("agent.roundhouse.dev/bad value", "x"),
            ("agent.roundhouse.dev/bad", "-x"),
            ("xagent.roundhouse.dev/zone", "c"),
        ]);
        let changed = difference(&present, &proposed).unwrap();
        assert_eq!(
            Value::Object(changed),
            serde_json::json!({"agent.roundhouse.dev/zone": "b", "agent.roundhouse.dev/gpu": "",
                "agent.roundhouse.dev/old": null})
        );
        let same = map(&[
            ("agent.roundhouse.dev/zone", "a"),
            ("agent.roundhouse.dev/old", "x"),
        ]);
        assert_eq!(difference(&present, &same), None);
    }

    #[test]
    fn there_are_at_most_sixteen() {
        let many: BTreeMap<String, String> = (0..40)
            .map(|n| (format!("agent.roundhouse.dev/l{n:02}"), "x".to_owned()))
            .collect();
        assert_eq!(difference(&BTreeMap::new(), &many).unwrap().len(), MOST);
    }
}
