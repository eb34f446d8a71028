//! Conditions after the Kubernetes API convention: one entry per type, the transition time moves with the status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition as a decision states it, before it is merged into a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Condition type, CamelCase.
    pub type_: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: Status,
    /// Machine-readable reason, CamelCase, never empty.
    pub reason: &'static str,
    /// What a person should know; bounded by the writer.
    pub message: String,
}

/// The three values of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// `True`
    True,
    /// `False`
    False,
    /// `Unknown`
    Unknown,
}

impl Status {
    /// The word that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::True => "True",
            Status::False => "False",
            Status::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(value: bool) -> Self {
        if value { Status::True } else { Status::False }
    }
}

/// Merges a verdict into `conditions`. `lastTransitionTime` moves only when the status changes; nothing else of the
/// list is touched, so that merging the same verdict twice changes nothing.
pub fn set(
    conditions: &mut Vec<Condition>,
    verdict: Verdict,
    observed_generation: Option<i64>,
    now: Timestamp,
) {
    let status = verdict.status.as_str();
    match conditions.iter_mut().find(|c| c.type_ == verdict.type_) {
        Some(existing) => {
            if existing.status != status {
                existing.last_transition_time = Time(now);
            }
            status.clone_into(&mut existing.status);
            verdict.reason.clone_into(&mut existing.reason);
            existing.message = verdict.message;
            existing.observed_generation = observed_generation;
        }
        None => conditions.push(Condition {
            type_: verdict.type_.to_owned(),
            status: status.to_owned(),
            reason: verdict.reason.to_owned(),
            message: verdict.message,
            observed_generation,
            last_transition_time: Time(now),
        }),
    }
}

/// Finds a condition by type.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

/// True when the condition exists and its status is `True`.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    get(conditions, type_).is_some_and(|c| c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: bool, message: &str) -> Verdict {
        Verdict {
            type_: "Ready",
            status: status.into(),
            reason: "Test",
            message: message.to_owned(),
        }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let (t1, t2, t3) = (
            Timestamp::UNIX_EPOCH,
            "2026-01-01T00:00:00Z".parse().unwrap(),
            Timestamp::MAX,
        );
        let mut conditions = Vec::new();
        set(&mut conditions, ready(false, "a"), Some(1), t1);
        set(&mut conditions, ready(false, "b"), Some(2), t2);
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time.0, t1);
        assert_eq!(conditions[0].message, "b");
        assert!(!is_true(&conditions, "Ready"));
        set(&mut conditions, ready(true, "c"), Some(3), t3);
        assert_eq!(conditions[0].last_transition_time.0, t3);
        assert!(is_true(&conditions, "Ready"));
    }
}
