//! Kinds that are not built in: what their conditions say, by the conventions that most operators follow.
//!
//! A limit of that: before its controller has looked at it, an object has no conditions, and is told from one of a kind that
//! never has any by nothing in it. It counts as ready then. Where that is too early (a later step depends on it), a
//! `conditionRules` entry of the bundle says what to wait for.

use super::{Readiness, field, saying, true_condition};
use crate::object;
use serde_json::Value;

/// Judges by `Failed` or `Stalled`, then `Ready`, then `Available`; one that is about an earlier generation says nothing
/// yet. A kind without any of them is ready once applied.
pub(super) fn judge(live: &Value) -> Readiness {
    let failed = true_condition(live, "Failed").or_else(|| true_condition(live, "Stalled"));
    let works = || object::condition(live, "Ready").or_else(|| object::condition(live, "Available"));
    let Some(condition) = failed.or_else(works) else {
        return Readiness::Ready;
    };
    let observed = condition.get("observedGeneration").and_then(Value::as_i64);
    if observed.is_some_and(|observed| observed < object::generation(live)) {
        return Readiness::progressing("the condition is about an earlier generation");
    }
    if failed.is_some() {
        return Readiness::failed(field(condition, "reason"), field(condition, "message"));
    }
    if field(condition, "status") == "True" {
        return Readiness::Ready;
    }
    Readiness::Progressing(
        format!("{} is not True {}", field(condition, "type"), saying(condition))
            .trim_end()
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use crate::observe::tests::verdict;
    use serde_json::json;

    #[test]
    fn unknown_kinds_are_judged_by_their_conditions() {
        let conditions = |list: &[(&str, &str)]| {
            let list: Vec<_> = list
                .iter()
                .map(|(t, s)| json!({"type": t, "status": s, "reason": "Why"}))
                .collect();
            json!({"metadata": {"generation": 2}, "status": {"conditions": list}})
        };
        let mut stale = conditions(&[("Ready", "True")]);
        stale["status"]["observedGeneration"] = json!(1);
        let mut stale_condition = conditions(&[("Ready", "True")]);
        stale_condition["status"]["conditions"][0]["observedGeneration"] = json!(1);
        let mut stale_failure = conditions(&[("Failed", "True"), ("Ready", "True")]);
        stale_failure["status"]["conditions"][0]["observedGeneration"] = json!(1);
        let mut stale_stall = conditions(&[("Stalled", "True")]);
        stale_stall["status"]["conditions"][0]["observedGeneration"] = json!(1);
        let mut failed = conditions(&[("Failed", "True"), ("Ready", "True")]);
        failed["status"]["conditions"][1]["observedGeneration"] = json!(1);
        for (live, expected) in [
            (json!({}), "ready"),
            (conditions(&[("Other", "False")]), "ready"),
            (conditions(&[("Ready", "True")]), "ready"),
            (conditions(&[("Ready", "False")]), "progressing"),
            (conditions(&[("Ready", "Unknown")]), "progressing"),
            (conditions(&[("Available", "True")]), "ready"),
            (conditions(&[("Available", "False")]), "progressing"),
            (conditions(&[("Ready", "True"), ("Failed", "True")]), "Why"),
            (conditions(&[("Ready", "True"), ("Failed", "False")]), "ready"),
            (conditions(&[("Stalled", "True")]), "Why"),
            (stale, "progressing"),
            (stale_condition, "progressing"),
            (stale_failure, "progressing"),
            (stale_stall, "progressing"),
            (failed, "Why"),
        ] {
            assert_eq!(verdict("example.com", "Widget", &live), expected, "{live}");
        }
    }
}
