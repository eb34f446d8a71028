//! What a watch prints line by line where there is no terminal. Pure.

use crate::{
    application::events::transitions_called,
    cli::{columns, status::StatusView},
};
use roundhouse_api::application::ApplicationStatus;

/// What is new: a line for everything that moved, and one for how far the clusters are. Of the first look, only where it
/// stands.
pub(super) fn lines(before: Option<&StatusView>, view: &StatusView) -> Vec<String> {
    let Some(before) = before else {
        return vec![standing(view)];
    };
    let told = transitions_called(&before.status, &view.status, &|name| view.step_title(name));
    let mut lines: Vec<String> = told
        .into_iter()
        .map(|moved| columns::plain(&moved.message))
        .collect();
    let progress = far(&view.status);
    if progress.is_some() && progress != far(&before.status) {
        lines.extend(progress);
    }
    let known = objects(&before.status);
    lines.extend(
        objects(&view.status)
            .into_iter()
            .filter(|line| !known.contains(line)),
    );
    if lines.is_empty() && before.verdict != view.verdict {
        lines.push(standing(view));
    }
    lines
}

/// `web-v2 delivering: step east: waiting for 1 of 3 clusters`
fn standing(view: &StatusView) -> String {
    let revision = view.revision().unwrap_or("no revision yet");
    let mut line = format!("{revision} {}", view.verdict.headline);
    if let Some(why) = &view.verdict.why {
        line.push_str(": ");
        line.push_str(&columns::plain(why));
    }
    line
}

fn far(status: &ApplicationStatus) -> Option<String> {
    let delivery = status.delivery.as_ref()?;
    let line = format!(
        "{} clusters, {} replicas ready",
        delivery.clusters_ready, delivery.replicas_ready
    );
    (!delivery.clusters_ready.is_empty()).then_some(line)
}

/// `step flags: 2/3 clusters`, of each step that has an object in clusters.
fn objects(status: &ApplicationStatus) -> Vec<String> {
    let delivery = status.delivery.iter();
    let lines = delivery.flat_map(|delivery| &delivery.objects).map(|object| {
        let (ready, all) = object.counts();
        let late = object.not_ready.first();
        let late = late.map(|late| format!(", {} is {}", late.cluster, late.phase));
        let text = format!(
            "step {}: {ready}/{all} clusters{}",
            object.step,
            late.unwrap_or_default()
        );
        columns::plain(&text)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::watch::tests::view;
    use serde_json::{Value, json};

    #[test]
    fn a_line_for_everything_that_moves_and_none_for_what_does_not() {
        let at = |phase: &str, step: Value, ready: &str| {
            view(json!({"observedGeneration": 1, "phase": phase,
                "workflow": {"appRevision": "web-v1", "generation": 1, "status": "running", "steps": [step]},
                "delivery": {"clustersReady": ready, "replicasReady": "3/9", "placed": 9, "unplaced": 0}}))
        };
        let east = |phase: &str, message: &str| json!({"name": "east", "type": "deploy", "phase": phase, "message": message});
        let one = at("runningWorkflow", east("running", "waiting for c1"), "1/3");
        assert_eq!(
            lines(None, &one),
            ["web-v1 delivering: step east: waiting for c1"]
        );
        assert!(lines(Some(&one), &one).is_empty());
        let two = at("runningWorkflow", east("succeeded", ""), "3/3");
        assert_eq!(
            lines(Some(&one), &two),
            ["step east succeeded", "3/3 clusters, 3/9 replicas ready"]
        );
        let named = StatusView {
            aliases: [("east".to_owned(), "East first".to_owned())].into(),
            ..two
        };
        assert_eq!(lines(Some(&one), &named)[0], "step east (East first) succeeded");
        // The objects of steps move by themselves.
        let object = |ready: u32, late: Value| {
            let mut one = at("runningWorkflow", east("running", "waiting for c1"), "1/3");
            let object = json!({"step": "flags", "type": "apply-object", "notReady": late,
                "regions": [{"region": "east", "clusters": 3, "ready": ready, "failed": 0, "unreachable": 0}]});
            let object = serde_json::from_value(object).unwrap();
            one.status.delivery.as_mut().unwrap().objects = vec![object];
            one
        };
        let late = json!([{"cluster": "c2", "phase": "Waiting", "message": ""}]);
        assert_eq!(
            lines(Some(&object(1, json!([]))), &object(2, late.clone())),
            ["step flags: 2/3 clusters, c2 is Waiting"]
        );
        assert!(lines(Some(&object(2, late.clone())), &object(2, late)).is_empty());
        // A change that is no transition still shows where it stands.
        let other = at("runningWorkflow", east("running", "waiting for c2"), "1/3");
        assert_eq!(
            lines(Some(&one), &other),
            ["web-v1 delivering: step east: waiting for c2"]
        );
    }
}
