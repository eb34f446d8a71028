//! Unanswered: requests to make an object that nobody answered. They may arrive long after the agent has given up waiting, and
//! make an object that is no longer wanted; so an object that is to go, and is not there, is not taken for gone until they
//! cannot arrive any more.

use crate::error::CallError;
use crate::object::ObjectKey;
use parking_lot::Mutex;
use roundhouse_api::ledger::{LedgerEntry, LedgerOutcome};
use std::collections::BTreeMap;
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

/// What happened to objects so lately that it counts, and when.
#[derive(Debug, Default)]
struct Lately {
    at: BTreeMap<ObjectKey, Instant>,
    /// How many there were when the old ones were dropped last.
    kept: usize,
}

impl Lately {
    /// It happened; when it did before.
    fn note(&mut self, key: &ObjectKey, at: Instant) -> Option<Instant> {
        let before = self.at.insert(key.clone(), at);
        // Not with every object: an agent may make ten thousand at a time.
        if self.at.len() > 2 * self.kept + 1_000 {
            self.at.retain(|_, at| at.elapsed() < ARRIVES_WITHIN);
            self.kept = self.at.len();
        }
        before
    }

    fn has(&self, key: &ObjectKey) -> bool {
        self.at.get(key).is_some_and(|at| at.elapsed() < ARRIVES_WITHIN)
    }
}

impl Unanswered {
    /// Sends a request that makes an object. It counts as unanswered from its beginning, so also if nobody waits for it any
    /// more, until there is an answer that says what became of it.
    pub(crate) async fn watch<T>(
        &self,
        key: &ObjectKey,
        request: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let before = self.open.lock().note(key, Instant::now());
        let answer = request.await;
        if answer.is_ok() {
            self.made.lock().note(key, Instant::now());
        }
        let mut open = self.open.lock();
        match before {
            _ if answer.as_ref().is_err_and(CallError::is_undecided) => open.note(key, Instant::now()),
            Some(earlier) => open.note(key, earlier),
            None => open.at.remove(key),
        };
        answer
    }

    /// Takes in what an earlier agent may have asked for when it died: objects that it intended, and never saw.
    pub(crate) fn inherit(&self, objects: &[LedgerEntry]) {
        use LedgerOutcome::{Intended, Removing, Unconfirmed};
        let may_arrive = |entry: &&LedgerEntry| {
            entry.uid.is_none() && matches!(entry.outcome, Intended | Removing | Unconfirmed)
        };
        for entry in objects.iter().filter(may_arrive) {
            self.open.lock().note(&ObjectKey::of_entry(entry), Instant::now());
        }
    }

    /// Whether a request may still make the object.
    pub(crate) fn may_make(&self, key: &ObjectKey) -> bool {
        self.open.lock().has(key)
    }

    /// Whether this agent made the object so lately that what it sent may be repeated.
    pub(crate) fn made_lately(&self, key: &ObjectKey) -> bool {
        self.made.lock().has(key)
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
        let status = Status::failure("no", "No").with_code(code);
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
            (Err(CallError::Timeout(ARRIVES_WITHIN)), true),
        ] {
            let unanswered = Unanswered::default();
            let words = format!("{said:?}");
            let _ = unanswered.watch(&key("a"), async { said }).await;
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
        let lost = unanswered.watch(&a, std::future::pending::<Result<(), CallError>>());
        assert!(tokio::time::timeout(Duration::from_secs(1), lost).await.is_err());
        assert!(unanswered.may_make(&key("a")), "nobody waits for it any more");
        let again = unanswered.watch(&key("a"), async { Ok(()) }).await;
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
