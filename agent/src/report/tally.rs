//! Tally: counts over the manifests of a bundle, and the phase and conditions that follow from them.

use super::{Leaving, cut};
use crate::apply::Observation;
use crate::observe::Readiness;
use roundhouse_api::bundle::{
    APPLIED, AVAILABLE, BundlePhase, Counts, DEGRADED, DRIFTED, FIGHTING, PROGRESSING, REMOVAL_REFUSED,
    ResourceMeta,
};
use roundhouse_api::condition::Verdict;

/// Counts and the first of each trouble, for the conditions.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    first_unapplied: Option<(&'static str, String)>,
    first_waiting: Option<String>,
    first_broken: Option<String>,
    drifted: u32,
    fighting: u32,
    kept_deleted: u32,
    first_kept_deleted: Option<String>,
}

impl Tally {
    pub(super) fn count(&mut self, observation: &Observation) {
        self.counts.total += 1;
        let outcome = &observation.outcome;
        self.drifted += u32::from(!observation.differences.drifted.is_empty());
        self.fighting += u32::from(observation.differences.history.is_fought());
        if !outcome.is_applied() {
            self.counts.failed += u32::from(outcome.is_failed());
            self.first_unapplied.get_or_insert_with(|| {
                (
                    outcome.reason(),
                    format!("manifest {}: {}", observation.meta.ordinal, outcome.message()),
                )
            });
            return;
        }
        self.counts.applied += 1;
        if outcome.reason() == "KeptDeleted" {
            self.kept_deleted += 1;
            self.first_kept_deleted
                .get_or_insert_with(|| format!("{} {}", observation.meta.kind, observation.meta.name));
        }
        match &observation.readiness {
            Readiness::Ready => self.counts.ready += 1,
            Readiness::Progressing(why) => {
                self.first_waiting
                    .get_or_insert_with(|| describe(&observation.meta, why));
            }
            Readiness::Failed { reason, message } => {
                self.counts.failed += 1;
                self.first_broken
                    .get_or_insert_with(|| describe(&observation.meta, &format!("{reason} {message}")));
            }
        }
    }

    pub(super) fn phase(&self) -> BundlePhase {
        if self.counts.failed > 0 {
            BundlePhase::Failed
        } else if self.counts.ready == self.counts.total {
            BundlePhase::Ready
        } else {
            BundlePhase::Progressing
        }
    }

    pub(super) fn verdicts(&self, phase: BundlePhase, leaving: &[Leaving]) -> [Verdict; 4] {
        let verdict = |type_, holds: bool, reason, message: String| Verdict {
            type_,
            status: holds.into(),
            reason,
            message: cut(&message),
        };
        let counts = self.counts;
        let applied = match &self.first_unapplied {
            Some((reason, message)) => verdict(APPLIED, false, reason, message.clone()),
            None if self.drifted > 0 => verdict(
                APPLIED,
                true,
                DRIFTED,
                format!("{} objects differ and drift is Report", self.drifted),
            ),
            None => match self.kept_deleted() {
                Some(message) => verdict(APPLIED, true, "KeptDeleted", message),
                None => verdict(APPLIED, true, "Applied", String::new()),
            },
        };
        let ready = counts.ready == counts.total;
        let waiting = self
            .first_broken
            .clone()
            .or_else(|| self.first_waiting.clone())
            .unwrap_or_default();
        let available = if ready {
            let message = self.kept_deleted().unwrap_or_default();
            verdict(AVAILABLE, true, "Ready", message)
        } else {
            let mut message = format!("{} of {} objects are ready", counts.ready, counts.total);
            if !waiting.is_empty() {
                message = format!("{message}: {waiting}");
            }
            verdict(AVAILABLE, false, "NotReady", message)
        };
        let refused = leaving.iter().find(|leaving| leaving.refused);
        let going = if refused.is_some() { 0 } else { leaving.len() };
        let progressing = match phase {
            BundlePhase::Progressing => verdict(
                PROGRESSING,
                true,
                "WaitingForObjects",
                self.first_waiting.clone().unwrap_or_default(),
            ),
            _ if going > 0 => verdict(
                PROGRESSING,
                true,
                "Removing",
                format!("{going} objects are being removed"),
            ),
            BundlePhase::Failed => verdict(PROGRESSING, false, "Failed", String::new()),
            BundlePhase::Ready | BundlePhase::Cleaned => verdict(PROGRESSING, false, "Ready", String::new()),
        };
        let degraded = if counts.failed > 0 {
            verdict(
                DEGRADED,
                true,
                "ObjectsFailed",
                format!("{} of {} objects failed", counts.failed, counts.total),
            )
        } else if let Some(refused) = refused {
            verdict(DEGRADED, true, REMOVAL_REFUSED, refused.message.clone())
        } else if self.fighting > 0 {
            let message = format!(
                "{} of {} objects have fields that somebody else rewrites again and again; see resourceStatus",
                self.fighting, counts.total
            );
            verdict(DEGRADED, true, FIGHTING, message)
        } else {
            verdict(DEGRADED, false, "NoFailure", String::new())
        };
        [applied, available, progressing, degraded]
    }
}

impl Tally {
    /// What counts as applied and ready although it is not there: nothing waits for it, but nobody is left to guess.
    fn kept_deleted(&self) -> Option<String> {
        let first = self.first_kept_deleted.as_ref()?;
        let more = match self.kept_deleted.saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "deleted on the cluster and kept so by apply-once Force until the revision changes: {first}{more}"
        ))
    }
}

fn describe(meta: &ResourceMeta, why: &str) -> String {
    format!("{} {}: {why}", meta.kind, meta.name)
}
