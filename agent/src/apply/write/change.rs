//! Change: an object that is there, by a patch or by an apply on the server side.

use super::make::taken_away;
use super::{Attempt, Ended, answered, kept};
use crate::apply::decode::Manifest;
use crate::apply::desired::Copy;
use crate::apply::once::recorded;
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::recreate::{After, Refused};
use crate::apply::server_side::{Manner, Sent, manner, taken_over};
use crate::apply::strategy::Treatment;
use crate::apply::{Engine, Task};
use crate::drift::{Advice, Differences, Written, is_repair};
use crate::error::CallError;
use crate::object;
use crate::path::FieldPath;
use roundhouse_api::hash;
use roundhouse_patch::{PatchType, json_merge, schema, strategic_merge};
use serde_json::{Value, json};

/// A patch that was decided on.
pub(super) struct Change {
    pub(super) patch: Value,
    pub(super) patch_type: PatchType,
    pub(super) copy: Copy,
}

impl Engine {
    /// Patches the object; `None` when it is to be looked at again.
    pub(super) async fn change(
        &self,
        attempt: Attempt<'_>,
        live: Value,
        change: Change,
        mut differences: Differences,
    ) -> Result<Option<Ended>, CallError> {
        let Attempt {
            task,
            order,
            kind,
            target,
            treatment,
            look,
        } = attempt;
        let Change {
            patch,
            patch_type,
            copy,
        } = change;
        let quiet = quiet(&patch, &live);
        if let (true, Some(refused)) = (task.quiet == Some(quiet.as_str()), task.refused) {
            let ended = Ended::with(refused.clone(), Some(live));
            return Ok(Some(ended.quieted(Some(quiet)).differing(differences)));
        }
        let repair = is_repair(task.manifest, &live, task.entry);
        let advice = differences.advise(&patch, &live, look);
        let kept = kept(task, order, &live);
        let fields = match (advice, repair) {
            (Advice::Nothing, _) => {
                let ended = Ended::with(Outcome::Applied(Applied::Unchanged), Some(live));
                return Ok(Some(ended.copied(copy).keeping(kept).differing(differences)));
            }
            (Advice::Wait, true) => {
                let ended = Ended::with(Outcome::Applied(Applied::Fought), Some(live));
                return Ok(Some(ended.differing(differences)));
            }
            (Advice::Wait, false) => Vec::new(),
            (Advice::Send { fields }, _) => fields,
        };
        let guarded = guarded(patch.clone(), &live);
        let error = match self.member.patch(kind, target, &guarded, patch_type).await {
            Ok(after) => {
                let still = object::resource_version(&after) == object::resource_version(&live);
                let applied = match still {
                    true => Applied::Unchanged,
                    false => Applied::Changed,
                };
                let sent = Written {
                    fields: &fields,
                    repair,
                    before: Some(&live),
                    applies_as: look.applies_as,
                };
                let ended = Ended::with(Outcome::Applied(applied), Some(after));
                let ended = ended.copied(copy).keeping(kept);
                return Ok(Some(answered(attempt, sent, ended, differences)));
            }
            Err(error) => error,
        };
        let wanted = patched(&live, &patch, patch_type, task.manifest);
        let refused = Refused {
            kind,
            target,
            live: &live,
            wanted: &wanted,
            treatment,
        };
        match self.make_way(&error, refused, task, order).await? {
            After::Other => Err(error),
            After::Gone => Ok(None),
            After::Ends(outcome) => {
                let quiet = (!outcome.wants_retry()).then_some(quiet);
                let ended = Ended::with(outcome, Some(live));
                Ok(Some(ended.quieted(quiet).differing(differences)))
            }
        }
    }

    /// Applies the object on the server side, made if it is missing; `None` when it is to be looked at again.
    pub(super) async fn apply_over(
        &self,
        attempt: Attempt<'_>,
        live: Option<Value>,
        config: Value,
        manner: Manner,
        mut differences: Differences,
    ) -> Result<Option<Ended>, CallError> {
        let Attempt { task, target, .. } = attempt;
        let before = live.clone();
        let (fields, repair) = if let Some(live) = &before {
            let repair = is_repair(task.manifest, live, task.entry);
            match differences.advise(&config, live, attempt.look) {
                Advice::Wait if repair => {
                    let ended = Ended::with(Outcome::Applied(Applied::Fought), before);
                    return Ok(Some(ended.differing(differences)));
                }
                Advice::Send { fields } => (fields, repair),
                // What the server alone sees may be left to do: a field left out.
                Advice::Wait | Advice::Nothing => (Vec::new(), repair),
            }
        } else {
            let repair = task.entry.is_some_and(|entry| recorded(task.manifest, entry));
            if let (true, Advice::Wait) = (repair, differences.advise_creation(attempt.look)) {
                return Ok(Some(taken_away(target, differences)));
            }
            (vec![FieldPath::default()], repair)
        };
        let sent = Sent {
            kind: attempt.kind,
            target,
            live,
            config,
            manner,
            treatment: attempt.treatment,
        };
        let applied = self.apply_on_server(sent, task, attempt.order).await?;
        Ok(applied.map(|ended| match ended.outcome {
            Outcome::Applied(Applied::Created | Applied::Changed) => {
                let written = Written {
                    fields: &fields,
                    repair,
                    before: before.as_ref(),
                    applies_as: attempt.look.applies_as,
                };
                answered(attempt, written, ended, differences)
            }
            _ => ended.differing(differences),
        }))
    }

    /// Hands what we wrote otherwise to the field manager that applies; then the object is looked at again.
    pub(super) async fn hand_over(
        &self,
        attempt: Attempt<'_>,
        live: &Value,
        patch: Value,
    ) -> Result<Option<Ended>, CallError> {
        let guarded = guarded(patch, live);
        let handed = self
            .member
            .patch(attempt.kind, attempt.target, &guarded, PatchType::Merge);
        let after = handed.await?;
        Ok(not_handed_over(&after, attempt.treatment, attempt.task))
    }
}

/// How a manifest ends whose managed fields the member does not let us hand over; `None` if it did.
fn not_handed_over(after: &Value, treatment: Treatment<'_>, task: Task<'_>) -> Option<Ended> {
    let manager = manner(treatment).manager;
    taken_over(after, &manager)?;
    let message = format!(
        "{}: the cluster keeps its managed fields as they are; field manager {manager} cannot take over what was \
         applied before",
        task.manifest.key
    );
    let outcome = Outcome::Failed {
        reason: "ApplyConflict",
        message,
    };
    Some(Ended::with(outcome, None))
}

/// The object as a patch makes it.
fn patched(live: &Value, patch: &Value, patch_type: PatchType, manifest: &Manifest) -> Value {
    let mut patched = live.clone();
    match (
        patch_type,
        schema::lookup(&manifest.api_version(), &manifest.key.kind),
    ) {
        (PatchType::Strategic, Some(schema)) => {
            // A patch that does not apply here was not refused by the member for what it changes.
            if strategic_merge(&mut patched, patch, schema).is_err() {
                return live.clone();
            }
        }
        _ => json_merge(&mut patched, patch),
    }
    patched
}

/// The patch with the resource version it was computed on: the member refuses it if the object changed meanwhile, or is
/// another one by now.
fn guarded(mut patch: Value, live: &Value) -> Value {
    if let (Some(version), Some(patch)) = (object::resource_version(live), patch.as_object_mut()) {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
    patch
}

/// See [`Observation::quiet`](crate::apply::Observation::quiet).
pub(in crate::apply) fn quiet(patch: &Value, live: &Value) -> String {
    let mut still = live.clone();
    if let Some(object) = still.as_object_mut() {
        object.remove("status");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
        }
    }
    hash::of_value(&json!([patch, still]))
}
