//! One manifest: what the next pass would do, and where last applied, live and desired part.

use crate::apply::adopt::Refused;
use crate::apply::decide::{Step, Terms, decide};
use crate::apply::decode::Manifest;
use crate::apply::desired::{desired, last_applied, weight_of_others};
use crate::apply::once::same_stamps;
use crate::apply::outcome::{Applied, Outcome};
use crate::apply::server_side::Manner;
use crate::apply::strategy::Treatment;
use crate::preview::Action;
use crate::preview::difference::{Difference, Four, Memory, Verdict, Walk};
use crate::preview::owners::Owners;
use crate::preview::secret::Veil;
use crate::preview::server_side::{Refusal, applied};
use roundhouse_api::bundle::{Drift, UpdateStrategyType};
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_patch::{PatchType, json_merge, schema, strategic_merge};
use serde_json::Value;

/// What is said about one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forecast {
    pub(crate) action: Action,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) differences: Vec<Difference>,
}

impl Forecast {
    pub(crate) fn of(action: Action, reason: &str, message: impl Into<String>) -> Self {
        Forecast {
            action,
            reason: reason.to_owned(),
            message: message.into(),
            differences: Vec::new(),
        }
    }

    /// What an outcome says that was reached without a look at the object.
    pub(crate) fn of_outcome(outcome: &Outcome) -> Self {
        let action = match outcome {
            Outcome::Applied(_) => Action::Nothing,
            Outcome::Refused(_) => Action::Refuse,
            Outcome::NoKind { .. } | Outcome::Delayed { .. } => Action::Wait,
            Outcome::Undecodable(_) | Outcome::Failed { .. } => Action::Fail,
        };
        Forecast::of(action, outcome.reason(), outcome.message())
    }
}

/// What is known of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) live: Option<&'a Value>,
    pub(crate) entry: Option<&'a LedgerEntry>,
    pub(crate) treatment: Treatment<'a>,
    pub(crate) terms: &'a Terms,
    pub(crate) salt: &'a [u8],
}

/// Decides as a pass does, and says what comes of it.
pub(crate) fn forecast(sight: Sight<'_>) -> Forecast {
    let Sight {
        manifest,
        live,
        entry,
        treatment,
        terms,
        ..
    } = sight;
    let step = decide(manifest, live, entry, treatment, terms);
    let Some(live) = live else {
        return match step {
            Step::Done(Outcome::Applied(Applied::Finished)) => Forecast::of(
                Action::Nothing,
                "Finished",
                "it ran to its end and is not made again",
            ),
            Step::Done(Outcome::Applied(Applied::KeptDeleted)) => Forecast::of(
                Action::Nothing,
                "KeptDeleted",
                "somebody deleted it, and apply-once Force keeps it so",
            ),
            Step::Done(outcome) => Forecast::of_outcome(&outcome),
            Step::Create { .. }
            | Step::Patch { .. }
            | Step::Apply { .. }
            | Step::Drifted { .. }
            | Step::HandOver { .. } => Forecast::of(Action::Create, "", ""),
        };
    };
    match step {
        Step::Drifted { .. } => left(sight, live, &Outcome::Applied(Applied::Drifted)),
        Step::Apply { config, manner } => applies(sight, live, &config, &manner),
        Step::HandOver { patch } => {
            // Only who owns what is changed by it; then the object is looked at again.
            let mut handed = live.clone();
            json_merge(&mut handed, &patch);
            match decide(manifest, Some(&handed), entry, treatment, terms) {
                Step::Apply { config, manner } => applies(sight, &handed, &config, &manner),
                _ => Forecast::of(Action::Change, "HandOver", "only the owners of fields change"),
            }
        }
        Step::Create { .. } => Forecast::of(Action::Create, "", ""),
        Step::Patch {
            patch, patch_type, ..
        } => match patched(manifest, live, &patch, patch_type) {
            Ok(after) => changed(sight, live, &after),
            Err(message) => Forecast::of(Action::Fail, "MergeFailed", message),
        },
        Step::Done(outcome) => left(sight, live, &outcome),
    }
}

/// What comes of a server-side apply.
fn applies(sight: Sight<'_>, live: &Value, config: &Value, manner: &Manner) -> Forecast {
    let manifest = sight.manifest;
    match applied(manifest, live, config, manner) {
        Ok(after) => changed(sight, live, &after),
        Err(Refusal::Misfit(reason)) => {
            Forecast::of(Action::Fail, "Invalid", format!("{}: {reason}", manifest.key))
        }
        Err(Refusal::Conflicts(conflicts)) => {
            let message = format!("{}: {conflicts}", manifest.key);
            let mut forecast = Forecast::of(Action::Fail, "ApplyConflict", message);
            forecast.differences = differences(sight, live, live, true);
            forecast
        }
    }
}

/// The live object after a patch, as the member computes it.
fn patched(manifest: &Manifest, live: &Value, patch: &Value, patch_type: PatchType) -> Result<Value, String> {
    let mut after = live.clone();
    match (patch_type, kind_schema(manifest)) {
        (PatchType::Strategic, Some(schema)) => {
            strategic_merge(&mut after, patch, schema)
                .map_err(|error| format!("{}: {error}", manifest.key))?;
        }
        _ => json_merge(&mut after, patch),
    }
    Ok(after)
}

fn kind_schema(manifest: &Manifest) -> Option<&'static schema::Node> {
    let text = |field| {
        manifest
            .object
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    schema::lookup(text("apiVersion"), text("kind"))
}

fn changed(sight: Sight<'_>, live: &Value, after: &Value) -> Forecast {
    let differences = differences(sight, live, after, false);
    let mut forecast = if differences
        .iter()
        .any(|d| matches!(d.verdict, Verdict::Change | Verdict::Conflict))
    {
        Forecast::of(Action::Change, "", "")
    } else if same_stamps(sight.manifest, live) {
        // The pass sends a patch, the member answers that nothing changed, and that is remembered.
        Forecast::of(Action::Nothing, "", "")
    } else {
        Forecast::of(
            Action::Change,
            "Stamps",
            "only labels and annotations of bookkeeping change",
        )
    };
    forecast.differences = differences;
    forecast
}

fn left(sight: Sight<'_>, live: &Value, outcome: &Outcome) -> Forecast {
    let mut forecast = match outcome {
        Outcome::Applied(applied) => why_left(sight, *applied),
        other => Forecast::of_outcome(other),
    };
    let compared = match outcome {
        Outcome::Applied(Applied::Observed) => false,
        Outcome::Applied(_) | Outcome::Refused(Refused::Differs { .. }) => true,
        _ => false,
    };
    if compared {
        forecast.differences = differences(sight, live, live, matches!(outcome, Outcome::Refused(_)));
    }
    if !forecast.differences.iter().any(Difference::is_ours) && outcome.is_applied() {
        // Nothing that we render differs: then nothing was held back either.
        forecast.reason.clear();
        forecast.message.clear();
    }
    forecast
}

/// Why an object is left as it is.
fn why_left(sight: Sight<'_>, applied: Applied) -> Forecast {
    let (reason, message) = match applied {
        Applied::Drifted => (
            "Drifted",
            "drift is Report: what differs is only reported".to_owned(),
        ),
        Applied::Left if sight.treatment.type_ == UpdateStrategyType::CreateOnly => (
            "CreateOnly",
            "the update strategy is CreateOnly: it is never changed".to_owned(),
        ),
        Applied::Left if sight.terms.drift == Drift::Ignore => (
            "Ignored",
            "drift is Ignore: what differs is left alone".to_owned(),
        ),
        Applied::Left => (
            "ApplyOnce",
            "apply-once: it was applied at this very content and is left alone".to_owned(),
        ),
        _ => ("", String::new()),
    };
    Forecast::of(Action::Nothing, reason, message)
}

fn differences(sight: Sight<'_>, live: &Value, after: &Value, refused: bool) -> Vec<Difference> {
    let Sight {
        manifest,
        entry,
        treatment,
        terms,
        ..
    } = sight;
    let (wanted, _) = desired(manifest, &terms.marker, weight_of_others(manifest, live));
    let last = last_applied(manifest, live, entry);
    let secret = manifest.key.is("", "Secret");
    let strategy = treatment
        .config
        .and_then(|config| config.update_strategy.as_ref());
    let manager = strategy
        .and_then(|strategy| strategy.server_side_apply.as_ref())
        .map(|how| how.field_manager.as_str());
    let same_content = entry.and_then(|entry| entry.digest.as_deref()) == Some(manifest.digest.as_str());
    let walk = Walk {
        owners: Owners::new(live, manager),
        veil: Veil {
            secret,
            salt: sight.salt,
        },
        memory: match (secret, same_content) {
            (false, _) => Memory::Kept,
            (true, true) => Memory::SameContent,
            (true, false) => Memory::OtherContent,
        },
        refused,
    };
    let four = Four {
        last: last.as_ref(),
        live: Some(live),
        desired: Some(&wanted),
        after: Some(after),
    };
    walk.differences(four, kind_schema(manifest))
}

#[cfg(test)]
mod tests;
