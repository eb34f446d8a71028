//! Difference: the conditions of a manifest whose live object somebody else writes to.

use super::cut;
use crate::apply::Observation;
use roundhouse_api::bundle::{DRIFTED, FIGHTING};
use roundhouse_api::condition::{Status, Verdict};

/// The conditions `Fighting` and `Drifted`, where they hold. Their messages name fields and writers, never a value.
pub(super) fn verdicts(observation: &Observation) -> impl Iterator<Item = Verdict> {
    let object = observation
        .target
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    let differences = &observation.differences;
    let holds = [
        (FIGHTING, differences.fighting(&object)),
        (DRIFTED, differences.drift(&object)),
    ];
    holds.into_iter().filter_map(|(type_, message)| {
        Some(Verdict {
            type_,
            status: Status::True,
            reason: type_,
            message: cut(&message?),
        })
    })
}
