//! Unanswered: requests to make an object that nobody answered. They may arrive long after the agent has given up waiting, and
//! make an object that is no longer wanted; so an object that is to go, and is not there, is not taken for gone until they
//! cannot arrive any more.

use crate::drift::is_ours_alone;
use crate::error::CallError;
use crate::object::ObjectKey;
use crate::path::FieldPath;
use parking_lot::Mutex;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};
use roundhouse_api::names::{AGENT_FIELD_MANAGER, annotation};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How late a request may arrive: longer than anything between an agent and its API server holds one back.
pub(crate) const ARRIVES_WITHIN: Duration = Duration::from_secs(600);

/// What objects were asked for, by their names in the ledger.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    /// A request may still make them.
    open: Mutex<Lately>,
    /// A request has made them.
    made: Mutex<Lately>,
}

/// A request to make an object.
#[derive(Debug, Clone)]
struct Asked {
    at: Instant,
    /// The field manager that it applies as; `None` for the agent's own.
    applies_as: Option<Arc<str>>,
}

impl Asked {
    fn now(applies_as: Option<&str>) -> Asked {
        let named = applies_as.filter(|manager| *manager != AGENT_FIELD_MANAGER);
        Asked {
            at: Instant::now(),
            applies_as: named.map(Into::into),
        }
    }

    fn is_late(&self) -> bool {
        self.at.elapsed() < ARRIVES_WITHIN
    }
}

/// The last requests of objects that count.
#[derive(Debug, Default)]
struct Lately {
    asked: BTreeMap<ObjectKey, Asked>,
    /// How many there were when the old ones were dropped last.
    kept: usize,
}

impl Lately {
    /// It was asked for; the request before.
    fn note(&mut self, key: &ObjectKey, asked: Asked) -> Option<Asked> {
        let before = self.asked.insert(key.clone(), asked);
        // Not with every object: an agent may make ten thousand at a time.
        if self.asked.len() > 2 * self.kept + 1_000 {
            self.asked.retain(|_, asked| asked.is_late());
            self.kept = self.asked.len();
        }
        before
    }

    fn get(&self, key: &ObjectKey) -> Option<&Asked> {
        self.asked.get(key).filter(|asked| asked.is_late())
    }
}

impl Unanswered {
    /// Sends a request that makes an object, applied as a field manager unless it is the agent's own. It counts as unanswered
    /// from its beginning, so also if nobody waits for it any more, until there is an answer that says what became of it.
    pub(crate) async fn watch<T>(
        &self,
        key: &ObjectKey,
        applies_as: Option<&str>,
        request: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let before = self.open.lock().note(key, Asked::now(applies_as));
        let answer = request.await;
        if answer.is_ok() {
            self.made.lock().note(key, Asked::now(applies_as));
        }
        let mut open = self.open.lock();
        match before {
            _ if answer.as_ref().is_err_and(CallError::is_undecided) => {
                open.note(key, Asked::now(applies_as))
            }
            Some(earlier) => open.note(key, earlier),
            None => open.asked.remove(key),
        };
        answer
    }

    /// Takes in what an earlier agent may have asked for when it died: objects that it intended, and never saw. When that was
    /// is not known: an agent that is started again and again waits anew each time.
    pub(crate) fn inherit(&self, objects: &[LedgerEntry]) {
        use LedgerOutcome::{Intended, Removing, Unconfirmed};
        let may_arrive = |entry: &&LedgerEntry| {
            entry.uid.is_none() && matches!(entry.outcome, Intended | Removing | Unconfirmed)
        };
        for entry in objects.iter().filter(may_arrive) {
            self.open
                .lock()
                .note(&ObjectKey::of_entry(entry), Asked::now(None));
        }
    }

    /// Whether a request may still make the object.
    pub(crate) fn may_make(&self, key: &ObjectKey) -> bool {
        self.open.lock().get(key).is_some()
    }

    /// Whether this agent made the object so lately that what it sent may be repeated, and as whom.
    pub(crate) fn made_lately(&self, key: &ObjectKey) -> Option<Sender> {
        self.made.lock().get(key).map(Sender::of)
    }

    /// Whether a live object is one that a request of this agent has made behind its back: late, or once more. Everybody may
    /// make an object with the agent's marker, from what was exported of an earlier one; only what this agent has written
    /// there itself, as far as managedFields know, is its own.
    pub(crate) fn has_made(&self, key: &ObjectKey, live: &Value) -> bool {
        let open = self.open.lock().get(key).map(Sender::of);
        let senders = [open, self.made_lately(key)];
        senders.iter().flatten().any(|sender| sender.has_written(live))
    }
}

/// As whom an object was made.
#[derive(Debug, Clone)]
pub(crate) struct Sender(Option<Arc<str>>);

impl Sender {
    fn of(asked: &Asked) -> Sender {
        Sender(asked.applies_as.clone())
    }

    /// Whether the marker of a live object is its, and nobody else's.
    pub(crate) fn has_written(&self, live: &Value) -> bool {
        let marker = FieldPath::default().field("metadata").field("annotations");
        let marker = marker.field(annotation::OWNED_BY);
        is_ours_alone(live, &marker, self.0.as_deref().unwrap_or(AGENT_FIELD_MANAGER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            kind: "ConfigMap".into(),
            name: name.into(),
            ..ObjectKey::default()
        }
    }

    fn entry(name: &str, outcome: LedgerOutcome, uid: Option<&str>) -> LedgerEntry {
        LedgerEntry {
            kind: "ConfigMap".into(),
            name: name.into(),
            uid: uid.map(str::to_owned),
            outcome,
            ..LedgerEntry::default()
        }
    }

    fn answer(code: u16) -> Result<(), CallError> {
        said(code, "no")
    }

    fn said(code: u16, message: &str) -> Result<(), CallError> {
        let status = Status::failure(message, "No").with_code(code);
        Err(CallError::Kube(kube::Error::Api(Box::new(status))))
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_answer_says_what_became_of_a_request() {
        for (said, expected) in [
            (Ok(()), false),
            (answer(403), false),
            (answer(409), false),
            (answer(429), false),
            (answer(500), true),
            (answer(504), true),
            // It is asked before anything is stored.
            (
                said(
                    500,
                    "Internal error occurred: failed calling webhook \"w\": refused",
                ),
                false,
            ),
            (Err(CallError::Timeout(ARRIVES_WITHIN)), true),
        ] {
            let unanswered = Unanswered::default();
            let words = format!("{said:?}");
            let _ = unanswered.watch(&key("a"), None, async { said }).await;
            assert_eq!(unanswered.may_make(&key("a")), expected, "{words}");
            assert!(!unanswered.may_make(&key("b")));
            tokio::time::advance(ARRIVES_WITHIN).await;
            assert!(!unanswered.may_make(&key("a")), "{words}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_of_its_own_request_alone() {
        let unanswered = Unanswered::default();
        let a = key("a");
        let lost = unanswered.watch(&a, None, std::future::pending::<Result<(), CallError>>());
        assert!(tokio::time::timeout(Duration::from_secs(1), lost).await.is_err());
        assert!(unanswered.may_make(&key("a")), "nobody waits for it any more");
        let again = unanswered.watch(&key("a"), None, async { Ok(()) }).await;
        assert!(
            again.is_ok() && unanswered.may_make(&key("a")),
            "the first one may arrive"
        );
        tokio::time::advance(ARRIVES_WITHIN - Duration::from_secs(1)).await;
        assert!(!unanswered.may_make(&key("a")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_agent_may_have_sent_when_it_died_is_inherited() {
        let unanswered = Unanswered::default();
        unanswered.inherit(&[
            entry("intended", LedgerOutcome::Intended, None),
            entry("going", LedgerOutcome::Removing, None),
            entry("recreated", LedgerOutcome::Intended, Some("1")),
            entry("refused", LedgerOutcome::Failed, None),
        ]);
        for (name, expected) in [
            ("intended", true),
            ("going", true),
            ("recreated", false),
            ("refused", false),
        ] {
            assert_eq!(unanswered.may_make(&key(name)), expected, "{name}");
        }
    }
}
