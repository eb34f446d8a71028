//! Values, owners and objects as text in one line. What comes from a cluster may hold anything: control characters are
//! written as escapes, so that no value moves the cursor.

use crate::cli::columns::plain;
use roundhouse_agent::preview::{ObjectPreview, Owner, Shown, Verdict};

/// Characters of a value in a table or tree that is not wide.
pub(super) const FITTING: usize = 40;

/// A value; absent is `-`.
pub(super) fn value(shown: Option<&Shown>, limit: Option<usize>) -> String {
    let text = match shown {
        None => return "-".to_owned(),
        Some(Shown::NotKept) => return "(not kept)".to_owned(),
        Some(Shown::Digest(digest)) => return format!("sha256:{digest}"),
        Some(Shown::Value(serde_json::Value::String(text))) if reads_as_text(text) => plain(text),
        Some(Shown::Value(value)) => plain(&value.to_string()),
    };
    match limit {
        Some(limit) if text.chars().count() > limit => {
            text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
        }
        _ => text,
    }
}

/// A text that cannot be taken for something else without its quotes.
fn reads_as_text(text: &str) -> bool {
    !text.trim().is_empty()
        && text.trim() == text
        && text != "-"
        && serde_json::from_str::<serde_json::Value>(text).is_err()
}

/// The managers of a field; `long` with how and when they wrote.
pub(super) fn owners(owners: &[Owner], long: bool) -> String {
    if owners.is_empty() {
        return "-".to_owned();
    }
    let one = |owner: &Owner| {
        let manager = plain(&owner.manager);
        if !long {
            return manager;
        }
        let words = [&owner.operation, &owner.subresource, &owner.time];
        let words: Vec<String> = words
            .into_iter()
            .filter(|word| !word.is_empty())
            .map(|word| plain(word))
            .collect();
        format!("{manager} ({})", words.join(" "))
    };
    owners.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// An object as kubectl names it: `Deployment.apps default/web`; a manifest that is none, by its place.
pub(super) fn object(object: &ObjectPreview) -> String {
    let mut text = plain(&object.kind);
    if !object.group.is_empty() {
        text.push('.');
        text.push_str(&plain(&object.group));
    }
    if !object.name.is_empty() {
        text.push(' ');
        if !object.namespace.is_empty() {
            text.push_str(&plain(&object.namespace));
            text.push('/');
        }
        text.push_str(&plain(&object.name));
    }
    match object.ordinal {
        Some(ordinal) if object.name.is_empty() || object.kind.is_empty() => {
            format!("manifest {ordinal} of {} {text}", object.bundle)
                .trim_end()
                .to_owned()
        }
        _ => text,
    }
}

/// What is said of an object as a whole; `None` if its differences say it all.
pub(super) fn remark(object: &ObjectPreview) -> Option<String> {
    use roundhouse_agent::preview::Action;
    let silent = match object.action {
        Action::Nothing => object.message.is_empty(),
        Action::Change => object.message.is_empty() && !object.differences.is_empty(),
        _ => false,
    };
    if silent {
        return None;
    }
    let mut text = object.action.word().to_owned();
    if !object.reason.is_empty() {
        text.push_str(&format!(" ({})", object.reason));
    }
    if !object.message.is_empty() {
        text.push_str(&format!(": {}", plain(&object.message)));
    }
    Some(text)
}

/// A word in the colour of its verdict.
pub(super) fn painted(text: &str, verdict: Verdict, color: bool) -> String {
    if !color {
        return text.to_owned();
    }
    let code = match verdict {
        Verdict::Conflict => "31",
        Verdict::Change => "33",
        Verdict::Keep => "36",
        Verdict::Once => "34",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_read_as_what_they_are() {
        for (shown, expected) in [
            (Some(Shown::Value(json!("nginx:1.28"))), "nginx:1.28"),
            (Some(Shown::Value(json!(3))), "3"),
            (Some(Shown::Value(json!("3"))), "\"3\""),
            (Some(Shown::Value(json!("true"))), "\"true\""),
            (Some(Shown::Value(json!(""))), "\"\""),
            (Some(Shown::Value(json!("-"))), "\"-\""),
            (Some(Shown::Value(json!("a\nb\u{1b}[2J"))), "a\\nb\\u{1b}[2J"),
            (Some(Shown::Value(json!({"a": [1]}))), "{\"a\":[1]}"),
            (Some(Shown::Value(json!("0123456789x"))), "012345678…"),
            (Some(Shown::Digest("ab".into())), "sha256:ab"),
            (Some(Shown::NotKept), "(not kept)"),
            (None, "-"),
        ] {
            let limit = if expected.ends_with('…') { 10 } else { FITTING };
            assert_eq!(value(shown.as_ref(), Some(limit)), expected);
        }
    }
}
