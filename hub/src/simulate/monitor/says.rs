//! What a write says, in a few words for the trace: a digest tells a person nothing.

use super::{
    commit::Commit,
    model::{BUNDLES, LEDGERS},
};
use crate::simulate::HUB;
use serde_json::Value;
use std::fmt::Display;

/// Of a Bundle its generation, whether it is to go, and what is reported; of a ledger what it follows; of anything else what is
/// `told` of it.
pub(super) fn says(commit: &Commit, told: Vec<String>) -> String {
    let words = match (&*commit.server == HUB, &*commit.key.table) {
        (true, BUNDLES) => bundle(commit.after()),
        (false, LEDGERS) => ledger(commit.after()),
        _ => told,
    };
    words.join("; ")
}

fn bundle(bundle: &Value) -> Vec<String> {
    let deleted = bundle.pointer("/metadata/deletionTimestamp").is_some();
    let reported = text(bundle, "/status/phase").map(|phase| {
        let of = number(bundle, "/status/observedGeneration");
        format!("{phase} at {of}")
    });
    let parts = [
        Some(bundle)
            .filter(|bundle| !bundle.is_null())
            .map(|bundle| format!("generation {}", number(bundle, "/metadata/generation"))),
        number_of(bundle, "/spec/epoch").map(|epoch| format!("epoch {epoch}")),
        text(bundle, "/spec/deletion/confirmedBy").map(|by| format!("to go by {by}")),
        deleted.then(|| "going".to_owned()),
        reported,
    ];
    parts.into_iter().flatten().collect()
}

fn ledger(ledger: &Value) -> Vec<String> {
    let objects = ledger.pointer("/spec/objects").and_then(Value::as_array);
    let leaving = objects.into_iter().flatten().filter(|entry| {
        let outcome = text(entry, "/outcome");
        outcome.is_some_and(|outcome| ["Removing", "Unconfirmed"].contains(&outcome))
    });
    let leaving = leaving.count();
    let parts = [
        text(ledger, "/spec/bundleUid").map(|uid| {
            let short: String = uid.chars().take(8).collect();
            format!("follows {short} at {}", number(ledger, "/spec/generation"))
        }),
        number_of(ledger, "/spec/epoch").map(|epoch| format!("epoch {epoch}")),
        text(ledger, "/spec/state").map(str::to_owned),
        (leaving > 0).then(|| format!("{leaving} to go")),
    ];
    parts.into_iter().flatten().collect()
}

fn text<'v>(value: &'v Value, at: &str) -> Option<&'v str> {
    value.pointer(at)?.as_str()
}

fn number_of(value: &Value, at: &str) -> Option<i64> {
    value.pointer(at)?.as_i64()
}

fn number(value: &Value, at: &str) -> impl Display {
    number_of(value, at).map_or("-".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bundle_and_a_ledger_are_told_in_a_few_words() {
        let going = json!({
            "metadata": {"generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"epoch": 2, "deletion": {"confirmedBy": "garbage-collection"}},
            "status": {"phase": "Progressing", "observedGeneration": 2},
        });
        assert_eq!(
            bundle(&going).join("; "),
            "generation 3; epoch 2; to go by garbage-collection; going; Progressing at 2"
        );
        let follows = json!({"spec": {"bundleUid": "0123456789", "generation": 3, "epoch": 2, "state": "Applying",
            "objects": [{"outcome": "Removing"}, {"outcome": "Applied"}, {"outcome": "Unconfirmed"}]}});
        assert_eq!(
            ledger(&follows).join("; "),
            "follows 01234567 at 3; epoch 2; Applying; 2 to go"
        );
        assert_eq!(
            (bundle(&Value::Null), ledger(&Value::Null)),
            (Vec::new(), Vec::new())
        );
    }
}
