//! Deletions: requests to delete an object that did not answer with success. One may arrive minutes later, or once more, when
//! the object is wanted again; and it finds the very version that it names where nothing was written meanwhile. So an object
//! that is wanted gets another version first. (What an agent obeys of a hub is [`fence`](crate::apply::fence)'s.)

use crate::lately::Lately;
use crate::ledger::may_be_asked_for;
use crate::object::{self, ObjectKey};
use parking_lot::Mutex;
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::annotation;
use serde_json::{Value, json};

/// What objects were to be deleted, as the member names them.
#[derive(Debug, Default)]
pub(crate) struct Deletions(Mutex<Lately<ObjectKey, Named>>);

/// The object that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// This `resourceVersion`.
    Version(Option<String>),
    /// Any version of this uid: an earlier agent has asked; by what version is not known.
    Uid {
        uid: String,
        /// The version that this agent asked to be replaced, without an answer: once it is, nothing of an earlier agent finds the
        /// object.
        outdating: Option<String>,
    },
}

impl Named {
    /// Whether a request that names this finds the object as it is.
    fn meets(&self, live: &Value) -> bool {
        match self {
            Named::Version(version) => version.as_deref() == object::resource_version(live),
            Named::Uid { uid, outdating } => {
                let outdated = outdating.is_some() && outdating.as_deref() == fenced(live);
                object::uid(live) == Some(uid) && !outdated
            }
        }
    }
}

impl Deletions {
    /// A request to delete the object as it was read is about to be sent.
    pub(crate) fn sends(&self, key: &ObjectKey, read: &Value) {
        let version = object::resource_version(read).map(str::to_owned);
        let mut open = self.0.lock();
        let named = match open.get(key) {
            // That one may come, too.
            Some(earlier @ Named::Uid { .. }) if earlier.meets(read) => earlier.clone(),
            // Of one object only its present version can be met.
            _ => Named::Version(version),
        };
        open.note(key.clone(), named);
    }

    /// The object as it was read was to be given another version, and no answer came: whether it has one is seen in it.
    pub(crate) fn outdating(&self, key: &ObjectKey, read: &Value) {
        if let Some(Named::Uid { outdating, .. }) = self.0.lock().get_mut(key) {
            *outdating = object::resource_version(read).map(str::to_owned);
        }
    }

    /// No request finds what it names any more: the object is gone, or has another version.
    pub(crate) fn settled(&self, key: &ObjectKey) {
        self.0.lock().remove(key);
    }

    /// Takes in what an earlier agent may have asked for when it died: objects that it was about to delete, for good or to make
    /// them anew.
    pub(crate) fn inherit(&self, objects: &[LedgerEntry]) {
        let may_arrive = objects.iter().filter(|entry| may_be_asked_for(entry.outcome));
        let mut open = self.0.lock();
        for entry in may_arrive {
            if let Some(uid) = &entry.uid {
                let named = Named::Uid {
                    uid: uid.clone(),
                    outdating: None,
                };
                open.note(ObjectKey::of_entry(entry), named);
            }
        }
    }

    /// Whether a request may still delete this object, as it is now.
    pub(crate) fn may_meet(&self, key: &ObjectKey, live: &Value) -> bool {
        let open = self.0.lock();
        !object::is_deleting(live) && open.get(key).is_some_and(|named| named.meets(live))
    }
}

/// The version that an object had when it was last given another one for this.
fn fenced(live: &Value) -> Option<&str> {
    object::annotation(live, annotation::FENCED)
}

/// The merge patch that gives an object another version, if it still has this one.
pub(crate) fn another_version(live: &Value) -> Value {
    let version = object::resource_version(live);
    json!({"metadata": {
        "resourceVersion": version,
        "annotations": {annotation::FENCED: version.unwrap_or_default()},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::testing::{self, entry};
    use roundhouse_api::late::ARRIVES_WITHIN;
    use roundhouse_api::ledger::LedgerOutcome;
    use std::time::Duration;

    fn key(name: &str) -> ObjectKey {
        testing::key("ConfigMap", name)
    }

    fn at(version: &str) -> Value {
        json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": version}})
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_meets_the_version_that_it_names_until_it_is_settled_or_too_old() {
        let deletions = Deletions::default();
        deletions.sends(&key("a"), &at("1"));
        assert!(deletions.may_meet(&key("a"), &at("1")));
        assert!(!deletions.may_meet(&key("b"), &at("1")));
        assert!(!deletions.may_meet(&key("a"), &at("2")));
        deletions.sends(&key("a"), &at("2"));
        assert!(deletions.may_meet(&key("a"), &at("2")));
        let mut going = at("2");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!deletions.may_meet(&key("a"), &going), "it goes already");
        deletions.settled(&key("a"));
        assert!(!deletions.may_meet(&key("a"), &at("2")));
        deletions.sends(&key("a"), &at("3"));
        tokio::time::advance(ARRIVES_WITHIN).await;
        assert!(!deletions.may_meet(&key("a"), &at("3")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_earlier_agent_asked_for_meets_any_version_of_its_object() {
        let deletions = Deletions::default();
        deletions.inherit(&[
            entry("removing", LedgerOutcome::Removing, Some("u")),
            entry("unconfirmed", LedgerOutcome::Unconfirmed, Some("u")),
            entry("recreated", LedgerOutcome::Intended, Some("u")),
            entry("new", LedgerOutcome::Intended, None),
            entry("applied", LedgerOutcome::Applied, Some("u")),
        ]);
        for (name, expected) in [
            ("removing", true),
            ("unconfirmed", true),
            ("recreated", true),
            ("new", false),
            ("applied", false),
        ] {
            assert_eq!(deletions.may_meet(&key(name), &at("7")), expected, "{name}");
        }
        // One more counts from when it is sent.
        tokio::time::advance(ARRIVES_WITHIN - Duration::from_secs(30)).await;
        deletions.sends(&key("removing"), &at("7"));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(deletions.may_meet(&key("removing"), &at("7")));
        assert!(
            deletions.may_meet(&key("removing"), &at("8")),
            "the earlier one, too"
        );
        assert!(!deletions.may_meet(&key("unconfirmed"), &at("7")), "that is over");
        // This agent's own try at another version counts where it got through.
        deletions.inherit(&[entry("wanted", LedgerOutcome::Removing, Some("u"))]);
        let fenced = |version: &str, had: &str| {
            let mut object = at(version);
            object["metadata"]["annotations"] = json!({ annotation::FENCED: had });
            object
        };
        assert!(
            deletions.may_meet(&key("wanted"), &fenced("7", "6")),
            "an earlier agent's"
        );
        deletions.outdating(&key("wanted"), &fenced("7", "6"));
        assert!(
            deletions.may_meet(&key("wanted"), &fenced("7", "6")),
            "it did not"
        );
        assert!(!deletions.may_meet(&key("wanted"), &fenced("8", "7")));
        deletions.sends(&key("wanted"), &fenced("8", "7"));
        assert!(
            deletions.may_meet(&key("wanted"), &fenced("8", "7")),
            "this agent's"
        );
        assert!(!deletions.may_meet(&key("wanted"), &fenced("9", "8")));
        let mut another = at("9");
        another["metadata"]["uid"] = json!("another");
        assert!(!deletions.may_meet(&key("removing"), &another));
        deletions.sends(&key("removing"), &another);
        assert!(deletions.may_meet(&key("removing"), &another));
    }
}
