//! Difference: the conditions of a manifest whose live object somebody else writes to.

use super::entry::{Says, says};
use crate::apply::Observation;
use roundhouse_api::bundle::{DRIFTED, FIGHTING};

/// The conditions `Fighting` and `Drifted`, where they hold. Their messages name fields and writers, never a value.
pub(super) fn says_of(observation: &Observation) -> impl Iterator<Item = Says<'_>> {
    let object = observation.target.as_ref().map(ToString::to_string);
    let object = object.unwrap_or_default();
    let differences = &observation.differences;
    let holds = [
        (FIGHTING, differences.fighting(&object)),
        (DRIFTED, differences.drift(&object)),
    ];
    holds
        .into_iter()
        .filter_map(|(type_, message)| Some(says(type_, true, type_, &message?)))
}
