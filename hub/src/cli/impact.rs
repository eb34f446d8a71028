//! What changes move, for programs: the same in plans and before changes of clusters.

use crate::fleet::{ApplicationImpact, Later};
use serde_json::{Value, json};

/// What the clock alone changes afterwards.
pub(super) fn of_later(later: &[Later]) -> Vec<Value> {
    let later = later.iter().map(|later| {
        json!({"at": later.at, "seconds": later.seconds, "applications": of_applications(&later.applications)})
    });
    later.collect()
}

/// What moves of each application.
pub(super) fn of_applications(applications: &[ApplicationImpact]) -> Vec<Value> {
    let applications = applications.iter().map(|application| {
        let moved = application.moved.iter().map(|moved| {
            json!({"cluster": moved.cluster, "before": moved.before, "otherwise": moved.otherwise, "after": moved.after, "delta": moved.delta()})
        });
        json!({
            "application": application.application,
            "moved": moved.collect::<Vec<_>>(),
            "unplaced": {"before": application.unplaced.0, "after": application.unplaced.1},
            "arriving": application.arriving,
            "leaving": application.leaving,
            "held": application.held,
        })
    });
    applications.collect()
}
