//! Unanswered: requests to make an object that nobody answered. They may arrive long after the agent has given up waiting, and
//! make an object that is no longer wanted; so an object that is to go, and is not there, is not taken for gone until they
//! cannot arrive any more.

use crate::drift::is_ours_alone;
use crate::error::CallError;
use crate::lately::Lately;
use crate::ledger::may_be_asked_for;
use crate::object::ObjectKey;
use crate::path::FieldPath;
use parking_lot::Mutex;
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::{AGENT_FIELD_MANAGER, annotation};
use serde_json::Value;
use std::sync::Arc;

/// What objects were asked for, by their names in the ledger.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    /// A request may still make them.
    open: Mutex<Lately<ObjectKey, Sender>>,
    /// A request to make them was answered, or given up.
    made: Mutex<Lately<ObjectKey, Sender>>,
}

/// As whom an object was asked for: a field manager that applies; `None` for the agent's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sender(Option<Arc<str>>);

impl Sender {
    fn of(applies_as: Option<&str>) -> Sender {
        let named = applies_as.filter(|manager| !manager.is_empty() && *manager != AGENT_FIELD_MANAGER);
        Sender(named.map(Into::into))
    }

    /// As the ledger has it: empty for the agent's own.
    pub(crate) fn applied_as(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether the marker of a live object is its, and nobody else's.
    pub(crate) fn has_written(&self, live: &Value) -> bool {
        let marker = FieldPath::default().field("metadata").field("annotations");
        let marker = marker.field(annotation::OWNED_BY);
        is_ours_alone(live, &marker, self.0.as_deref().unwrap_or(AGENT_FIELD_MANAGER))
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
        let note = |lately: &Mutex<Lately<ObjectKey, Sender>>| {
            lately.lock().note(key.clone(), Sender::of(applies_as))
        };
        let before = note(&self.open);
        let answer = request.await;
        // Of one that was refused, too: something on the way may have repeated it, and nobody refuse that.
        note(&self.made);
        match before {
            _ if answer.as_ref().is_err_and(CallError::is_undecided) => drop(note(&self.open)),
            Some(earlier) => drop(self.open.lock().put(key.clone(), earlier)),
            None => self.open.lock().remove(key),
        }
        answer
    }

    /// Takes in what an earlier agent may have asked for when it died: objects that it intended and never saw, and those that it
    /// still looked for. When that was is not known: an agent that is started again and again waits anew each time.
    pub(crate) fn inherit(&self, objects: &[LedgerEntry]) {
        for entry in objects {
            let unseen = entry.uid.is_none() && may_be_asked_for(entry.outcome);
            if unseen || entry.unanswered.is_some() {
                let sender = Sender::of(entry.unanswered.as_deref());
                self.open.lock().note(ObjectKey::of_entry(entry), sender);
            }
        }
    }

    /// Whether a request may still make the object, and as whom.
    pub(crate) fn may_make(&self, key: &ObjectKey) -> Option<Sender> {
        self.open.lock().get(key).cloned()
    }

    /// Whether this agent has asked for the object so lately that what it sent may be repeated, and as whom.
    pub(crate) fn made_lately(&self, key: &ObjectKey) -> Option<Sender> {
        self.made.lock().get(key).cloned()
    }

    /// Whether a live object is one that a request of this agent has made behind its back: late, or once more. Everybody may
    /// make an object with the agent's marker, from what was exported of an earlier one; only what this agent has written
    /// there itself, as far as managedFields know, is its own.
    pub(crate) fn has_made(&self, key: &ObjectKey, live: &Value) -> bool {
        let open = self.open.lock().get(key).cloned();
        let senders = [open, self.made_lately(key)];
        senders.iter().flatten().any(|sender| sender.has_written(live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::testing::{self, entry};
    use kube::core::Status;
    use roundhouse_api::late::ARRIVES_WITHIN;
    use roundhouse_api::ledger::LedgerOutcome;
    use std::time::Duration;

    fn key(name: &str) -> ObjectKey {
        testing::key("ConfigMap", name)
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
            assert_eq!(unanswered.may_make(&key("a")).is_some(), expected, "{words}");
            assert_eq!(unanswered.may_make(&key("b")), None);
            tokio::time::advance(ARRIVES_WITHIN).await;
            assert_eq!(unanswered.may_make(&key("a")), None, "{words}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_for_may_come_once_more_whatever_was_answered() {
        for said in [Ok(()), answer(403), answer(409), answer(500)] {
            let (unanswered, words) = (Unanswered::default(), format!("{said:?}"));
            let _ = unanswered.watch(&key("a"), None, async { said }).await;
            assert!(unanswered.made_lately(&key("a")).is_some(), "{words}");
            assert_eq!(unanswered.made_lately(&key("b")), None, "{words}");
            tokio::time::advance(ARRIVES_WITHIN).await;
            assert_eq!(unanswered.made_lately(&key("a")), None, "{words}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_of_its_own_request_alone() {
        let unanswered = Unanswered::default();
        let a = key("a");
        let lost = unanswered.watch(&a, None, std::future::pending::<Result<(), CallError>>());
        assert!(tokio::time::timeout(Duration::from_secs(1), lost).await.is_err());
        assert!(
            unanswered.may_make(&key("a")).is_some(),
            "nobody waits for it any more"
        );
        let again = unanswered.watch(&key("a"), None, async { Ok(()) }).await;
        assert!(
            again.is_ok() && unanswered.may_make(&key("a")).is_some(),
            "the first one may arrive"
        );
        tokio::time::advance(ARRIVES_WITHIN - Duration::from_secs(1)).await;
        assert_eq!(unanswered.may_make(&key("a")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_agent_may_have_sent_when_it_died_is_inherited() {
        let unanswered = Unanswered::default();
        unanswered.inherit(&[
            entry("intended", LedgerOutcome::Intended, None),
            entry("going", LedgerOutcome::Removing, None),
            entry("recreated", LedgerOutcome::Intended, Some("1")),
            entry("refused", LedgerOutcome::Failed, None),
            entry("removed", LedgerOutcome::Removing, Some("1")),
            LedgerEntry {
                unanswered: Some("somebody".to_owned()),
                ..entry("looked for", LedgerOutcome::Removing, Some("1"))
            },
        ]);
        for (name, expected) in [
            ("intended", true),
            ("going", true),
            ("recreated", false),
            ("refused", false),
            ("removed", false),
            ("looked for", true),
        ] {
            assert_eq!(unanswered.may_make(&key(name)).is_some(), expected, "{name}");
        }
        let applied_as = unanswered.may_make(&key("looked for"));
        assert_eq!(applied_as, Some(Sender::of(Some("somebody"))));
    }
}
