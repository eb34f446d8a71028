//! Make: an object that is missing, and the namespace that it may need.

use super::{Attempt, Ended, answered};
use crate::apply::desired::Copy;
use crate::apply::once::recorded;
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::{Engine, Order};
use crate::drift::{Advice, Differences, Written};
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
use crate::object::ObjectKey;
use crate::path::FieldPath;
use roundhouse_api::bundle::FIGHTING;
use roundhouse_api::names::label;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Engine {
    /// Makes the object, unless somebody takes it away again and again; `None` when it is to be looked at again.
    pub(super) async fn make(
        &self,
        attempt: Attempt<'_>,
        object: Value,
        copy: Copy,
        mut differences: Differences,
    ) -> Result<Option<Ended>, CallError> {
        let Attempt { task, target, .. } = attempt;
        let repair = task.entry.is_some_and(|entry| recorded(task.manifest, entry));
        if let (true, Advice::Wait) = (repair, differences.advise_creation(attempt.look)) {
            return Ok(Some(taken_away(target, differences)));
        }
        let made = self.create(attempt, object, copy).await?;
        let sent = Written {
            fields: &[FieldPath::default()],
            repair,
            before: None,
            applies_as: attempt.look.applies_as,
        };
        Ok(made.map(|ended| answered(attempt, sent, ended, differences)))
    }

    /// Makes the object; `None` when it is to be tried again.
    async fn create(
        &self,
        attempt: Attempt<'_>,
        mut object: Value,
        copy: Copy,
    ) -> Result<Option<Ended>, CallError> {
        let Attempt {
            task, kind, target, ..
        } = attempt;
        if !kind.namespaced
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("namespace");
        }
        let create = self.member.create(kind, target, &object);
        match self.unanswered.watch(&task.manifest.key, None, create).await {
            Ok(live) => {
                let ended = Ended::with(Outcome::Applied(Applied::Created), Some(live));
                // Nothing was there that could be kept.
                Ok(Some(ended.copied(copy).keeping(Some(BTreeMap::new()))))
            }
            // Not the object is missing, it is about to be made: its namespace is.
            Err(error) if error.fault() == Fault::NotFound => Ok(self
                .make_room(kind, target, attempt.order)
                .await?
                .map(|outcome| Ended::with(outcome, None))),
            Err(error) => Err(error),
        }
    }

    /// Makes the missing namespace of the application; it is labelled, and never pruned because no ledger has it.
    pub(in crate::apply) async fn make_room(
        &self,
        kind: &Kind,
        target: &ObjectKey,
        order: Order<'_>,
    ) -> Result<Option<Outcome>, CallError> {
        let key = ObjectKey {
            kind: "Namespace".to_owned(),
            name: target.namespace.clone(),
            ..ObjectKey::default()
        };
        let namespaces = self.kinds.resolve(&key.gvk("v1")).await?;
        let Some(namespaces) = namespaces.filter(|_| kind.namespaced) else {
            return Ok(Some(self.kind_is_gone(target)));
        };
        if self.member.get(&namespaces, &key).await?.is_some() {
            return Ok(Some(self.kind_is_gone(target)));
        }
        if order.app_namespace != Some(target.namespace.as_str()) {
            let message = format!(
                "namespace {} does not exist: add it to the bundle; only the namespace of the application is made \
                 without being asked for",
                target.namespace
            );
            return Ok(Some(Outcome::Failed {
                reason: "NamespaceNotFound",
                message,
            }));
        }
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": target.namespace, "labels": {label::MANAGED_BY: label::MANAGED_BY_VALUE}},
        });
        match self.member.create(&namespaces, &key, &namespace).await {
            Ok(_) => Ok(None),
            Err(error) if error.fault() == Fault::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The outcome where nobody answers about the kind. Discovery is asked anew by the next try.
    pub(super) fn kind_is_gone(&self, target: &ObjectKey) -> Outcome {
        self.kinds.forget();
        Outcome::NoKind {
            message: format!("the cluster no longer serves the kind of {target}"),
            lasting: false,
        }
    }
}

/// An object that somebody deletes again and again is not made before its time.
pub(super) fn taken_away(target: &ObjectKey, differences: Differences) -> Ended {
    let outcome = Outcome::Delayed {
        reason: FIGHTING,
        message: differences.fighting(&target.to_string()).unwrap_or_default(),
    };
    Ended::with(outcome, None).differing(differences)
}
