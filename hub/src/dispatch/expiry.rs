//! Hand-written Bundles that go by themselves once they are complete (`spec.deleteOption.ttlSecondsAfterFinished`).

use super::Observed;
use jiff::{SignedDuration, Timestamp};
use roundhouse_api::{bundle::COMPLETE, condition};

/// Since when the Bundle is complete, by its agent's report about the present spec; `None` while it is not.
pub fn complete_since(bundle: &Observed) -> Option<Timestamp> {
    let report = bundle.present_report()?;
    let complete = condition::get(&report.conditions, COMPLETE)?;
    let own = complete
        .observed_generation
        .is_none_or(|g| g == bundle.generation);
    (own && complete.status == "True").then_some(complete.last_transition_time.0)
}

/// When the Bundle is due to go; `None` when it stays.
///
/// `seen` is when the hub first saw it complete: an agent whose clock is ahead does not put the end off. A Bundle of an
/// Application never goes this way, dispatch would only write it again; a paused one waits.
pub fn expires_at(bundle: &Observed, seen: Timestamp) -> Option<Timestamp> {
    let spec = &bundle.spec;
    if spec.application_ref.is_some() || spec.paused == Some(true) || bundle.deleting {
        return None;
    }
    let ttl = spec.delete_option.as_ref()?.ttl_seconds_after_finished?;
    let since = complete_since(bundle)?.min(seen);
    let ttl = SignedDuration::from_secs(ttl.max(0));
    Some(since.checked_add(ttl).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use roundhouse_api::bundle::{ApplicationRef, BundleSpec, BundleStatus, DeleteOption};
    use std::sync::Arc;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn bundle(ttl: Option<i64>, complete: Option<(&str, i64)>) -> Observed {
        let condition = complete.map(|(status, second)| Condition {
            type_: COMPLETE.to_owned(),
            status: status.to_owned(),
            reason: "ConditionRulesAggregated".to_owned(),
            message: String::new(),
            observed_generation: Some(3),
            last_transition_time: Time(at(second)),
        });
        Observed {
            generation: 3,
            spec: Arc::new(BundleSpec {
                delete_option: Some(DeleteOption {
                    ttl_seconds_after_finished: ttl,
                    ..DeleteOption::default()
                }),
                ..BundleSpec::default()
            }),
            status: Some(Arc::new(BundleStatus {
                observed_generation: Some(3),
                conditions: condition.into_iter().collect(),
                ..BundleStatus::default()
            })),
            ..Observed::default()
        }
    }

    fn spec(bundle: &mut Observed) -> &mut BundleSpec {
        Arc::make_mut(&mut bundle.spec)
    }

    #[test]
    fn c07_ttl_after_completion() {
        let changed = |change: fn(&mut Observed)| {
            let mut bundle = bundle(Some(60), Some(("True", 100)));
            change(&mut bundle);
            bundle
        };
        for (what, bundle, expected) in [
            ("set", bundle(Some(60), Some(("True", 100))), Some(at(160))),
            ("unset", bundle(None, Some(("True", 100))), None),
            ("no deleteOption", changed(|b| spec(b).delete_option = None), None),
            ("not complete", bundle(Some(60), Some(("False", 100))), None),
            ("nothing that completes", bundle(Some(60), None), None),
            ("zero", bundle(Some(0), Some(("True", 100))), Some(at(100))),
            ("negative", bundle(Some(-5), Some(("True", 100))), Some(at(100))),
            (
                "endless",
                bundle(Some(i64::MAX), Some(("True", 100))),
                Some(Timestamp::MAX),
            ),
            (
                "the agent's clock is ahead",
                bundle(Some(60), Some(("True", 900))),
                Some(at(560)),
            ),
            (
                "of an application",
                changed(|b| spec(b).application_ref = Some(ApplicationRef::default())),
                None,
            ),
            ("paused", changed(|b| spec(b).paused = Some(true)), None),
            ("being deleted", changed(|b| b.deleting = true), None),
            ("changed since", changed(|b| b.generation = 4), None),
            ("never reported", changed(|b| b.status = None), None),
        ] {
            assert_eq!(expires_at(&bundle, at(500)), expected, "{what}");
        }
    }
}
