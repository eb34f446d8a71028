//! Sending an apply. The shell around what [`server_side`](crate::apply::server_side) decides.

use super::{Manner, are_nobodys, conflict_message, conflicts};
use crate::apply::desired::Copy;
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::recreate::{After, Refused};
use crate::apply::strategy::Treatment;
use crate::apply::write::{Ended, kept, quiet};
use crate::apply::{Engine, Order, Task};
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
use crate::object::{self, ObjectKey};
use roundhouse_patch::json_merge;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A version that no object has (an etcd revision of a stored object is 2 or more): an apply that asks for it makes the
/// object, or is refused with a conflict if somebody made it since the look. Without it, what somebody made would be taken
/// over unasked.
const UNBORN: &str = "1";
/// How older servers refuse to make a Service by an apply that asks for a version (kubernetes/kubernetes#106745).
const NO_VERSION_YET: &str = "resourceVersion should not be set on objects to be created";

/// An apply, and what it is decided on.
pub(crate) struct Sent<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) target: &'a ObjectKey,
    pub(crate) live: Option<Value>,
    pub(crate) config: Value,
    pub(crate) manner: Manner,
    pub(crate) treatment: Treatment<'a>,
}

impl Engine {
    /// Applies a configuration; `None` when the object is to be looked at again.
    pub(in crate::apply) async fn apply_on_server(
        &self,
        mut sent: Sent<'_>,
        task: Task<'_>,
        order: Order<'_>,
    ) -> Result<Option<Ended>, CallError> {
        if !sent.kind.namespaced
            && let Some(metadata) = sent.config.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("namespace");
        }
        if sent.live.is_none() {
            sent.config["metadata"]["resourceVersion"] = json!(UNBORN);
        }
        let quiet = sent.live.as_ref().map(|live| digest(&sent, live));
        // Nothing was there that could be kept in an object that is made.
        let kept = match &sent.live {
            Some(live) => kept(task, order, live),
            None => Some(BTreeMap::new()),
        };
        if quiet.is_some() && task.quiet == quiet.as_deref() {
            let outcome = task
                .refused
                .cloned()
                .unwrap_or(Outcome::Applied(Applied::Unchanged));
            return Ok(Some(Ended {
                kept,
                ..ended(outcome, sent.live, quiet)
            }));
        }
        let mut answer = self.send(&sent, task, sent.manner.force).await;
        if sent.live.is_none() {
            match &answer {
                // Whose it is has to be seen first, whatever it is that conflicts.
                Err(error) if error.fault() == Fault::Conflict => return Ok(None),
                Err(error) if error.message().contains(NO_VERSION_YET) => {
                    if let Some(metadata) = sent.config["metadata"].as_object_mut() {
                        metadata.remove("resourceVersion");
                    }
                    answer = self.send(&sent, task, sent.manner.force).await;
                }
                _ => {}
            }
        }
        let refused = |answer: &Result<Value, CallError>| match answer {
            Err(error) => error.status().map(conflicts).unwrap_or_default(),
            Ok(_) => Vec::new(),
        };
        let mut found = refused(&answer);
        if are_nobodys(&found) && !sent.manner.force {
            answer = self.send(&sent, task, true).await;
            found = refused(&answer);
        }
        match answer {
            Ok(after) => {
                let version = sent.live.as_ref().map(object::resource_version);
                let still = version.is_some_and(|version| version == object::resource_version(&after));
                let applied = match (&sent.live, still) {
                    (None, _) => Applied::Created,
                    (Some(_), true) => Applied::Unchanged,
                    (Some(_), false) => Applied::Changed,
                };
                let quiet = quiet.filter(|_| still);
                Ok(Some(Ended {
                    kept,
                    ..ended(Outcome::Applied(applied), Some(after), quiet)
                }))
            }
            Err(_) if !found.is_empty() => {
                let outcome = Outcome::Failed {
                    reason: "ApplyConflict",
                    message: conflict_message(&task.manifest.key, &found),
                };
                Ok(Some(ended(outcome, sent.live, quiet)))
            }
            Err(error) => match &sent.live {
                None if error.fault() == Fault::NotFound => {
                    let outcome = self.make_room(sent.kind, sent.target, order).await?;
                    Ok(outcome.map(|outcome| ended(outcome, None, None)))
                }
                None => Err(error),
                Some(live) => {
                    let mut wanted = live.clone();
                    json_merge(&mut wanted, &sent.config);
                    let refused = Refused {
                        kind: sent.kind,
                        target: sent.target,
                        live,
                        wanted: &wanted,
                        treatment: sent.treatment,
                    };
                    match self.make_way(&error, refused, task, order).await? {
                        After::Other => Err(error),
                        After::Gone => Ok(None),
                        After::Ends(outcome) => {
                            let quiet = quiet.filter(|_| !outcome.wants_retry());
                            Ok(Some(ended(outcome, sent.live, quiet)))
                        }
                    }
                }
            },
        }
    }

    async fn send(&self, sent: &Sent<'_>, task: Task<'_>, force: bool) -> Result<Value, CallError> {
        let manager = &sent.manner.manager;
        let apply = self
            .member
            .apply(sent.kind, sent.target, &sent.config, manager, force);
        self.unanswered
            .watch(&task.manifest.key, Some(manager), apply)
            .await
    }
}

/// The copy of a three-way apply that went before is of no use any more.
fn ended(outcome: Outcome, live: Option<Value>, quiet: Option<String>) -> Ended {
    Ended {
        outcome,
        live,
        copy: Some(Copy::OptedOut),
        differences: None,
        answer: None,
        quiet,
        kept: None,
    }
}

/// See [`Observation::quiet`](crate::apply::Observation::quiet): what is sent, and who owns what.
fn digest(sent: &Sent<'_>, live: &Value) -> String {
    let mut config = sent.config.clone();
    if let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owners: Vec<&Value> = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("subresource").and_then(Value::as_str) != Some("status"))
        .collect();
    quiet(
        &json!([config, sent.manner.manager, sent.manner.force, owners]),
        live,
    )
}
