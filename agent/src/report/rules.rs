//! The conditions of a bundle that follow from the rules of its manifests (OCM: aggregation to the work).

use super::cut;
use crate::apply::Observation;
use crate::observe::RuleCondition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use roundhouse_api::bundle::{APPLIED, AVAILABLE, COMPLETE, DEGRADED, PROGRESSING};
use roundhouse_api::condition::Status;
use std::collections::BTreeMap;

/// Reason of a condition that was made of those of manifests.
const AGGREGATED: &str = "ConditionRulesAggregated";
/// At most this many condition types are made of rules.
const MAX_TYPES: usize = 16;

/// What the manifests say under one condition type.
struct Sum<'a> {
    status: Status,
    first: &'a RuleCondition,
    of: &'a Observation,
    manifests: usize,
}

/// Sets the conditions that rules make, and prunes those that no rule makes any more. `Applied`, `Available`,
/// `Progressing` and `Degraded` are ours: rules decide them by way of the readiness of their objects.
pub(super) fn aggregate(
    conditions: &mut Vec<Condition>,
    observations: &[&Observation],
    generation: i64,
    now: Timestamp,
) {
    let mut sums: BTreeMap<&str, Sum<'_>> = BTreeMap::new();
    for observation in observations {
        let examined = observation.examined.iter();
        for condition in examined.flat_map(|examined| &examined.conditions) {
            if [APPLIED, AVAILABLE, PROGRESSING, DEGRADED].contains(&condition.type_.as_str()) {
                continue;
            }
            let fresh = || Sum {
                status: condition.status,
                first: condition,
                of: observation,
                manifests: 0,
            };
            let sum = sums.entry(&condition.type_).or_insert_with(fresh);
            sum.manifests += 1;
            if outweighs(&condition.type_, condition.status, sum.status) {
                (sum.status, sum.first, sum.of) = (condition.status, condition, observation);
            }
        }
    }
    let unknown = observations.iter().find(|observation| observation.kind.is_none());
    let before = std::mem::take(conditions);
    let made: BTreeMap<&str, Condition> = sums
        .into_iter()
        .take(MAX_TYPES)
        .map(|(type_, sum)| {
            let (mut status, mut message) = (sum.status, sum.message());
            if let (COMPLETE, Status::True, Some(unknown)) = (type_, status, unknown) {
                status = Status::False;
                message = format!(
                    "manifest {}: its kind is not known, nor whether it has an end",
                    unknown.meta.ordinal
                );
            }
            let known = before
                .iter()
                .find(|known| known.type_ == type_ && known.status == status.as_str());
            let since = known.map_or(Time(now), |known| known.last_transition_time.clone());
            let condition = Condition {
                type_: type_.to_owned(),
                status: status.as_str().to_owned(),
                reason: AGGREGATED.to_owned(),
                message: cut(&message),
                observed_generation: Some(generation),
                last_transition_time: since,
            };
            (type_, condition)
        })
        .collect();
    conditions.extend(
        before
            .iter()
            .filter(|known| known.reason != AGGREGATED && !made.contains_key(known.type_.as_str()))
            .cloned(),
    );
    conditions.extend(made.into_values());
}

/// False before Unknown before True; for `Failed` the other way round.
fn outweighs(type_: &str, new: Status, old: Status) -> bool {
    let weight = |status| match (status, type_ == "Failed") {
        (Status::Unknown, _) => 1,
        (Status::False, false) | (Status::True, true) => 2,
        (Status::True, false) | (Status::False, true) => 0,
    };
    weight(new) > weight(old)
}

impl Sum<'_> {
    fn message(&self) -> String {
        let message = &self.first.message;
        match self.manifests {
            1 => message.clone(),
            n if self.status == Status::True && self.first.type_ != "Failed" => {
                format!("{n} manifests: {message}")
            }
            _ => format!("{} {}: {message}", self.of.meta.kind, self.of.meta.name),
        }
    }
}
