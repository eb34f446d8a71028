//! Counts what ended between two statuses.

use crate::metrics::Metrics;
use jiff::Timestamp;
use roundhouse_api::application::{ApplicationPhase, ApplicationStatus, StepPhase, StepStatus};
use std::time::Duration;

/// Counts the steps and the run that `after` has as ended and `before` has not. A step that failed and is tried again has
/// not ended.
pub(in crate::application) fn ended(
    metrics: &Metrics,
    before: &ApplicationStatus,
    after: &ApplicationStatus,
    now: Timestamp,
) {
    let Some(run) = &after.workflow else { return };
    let earlier = before.workflow.as_ref();
    let same = earlier.filter(|earlier| earlier.run == run.run && earlier.app_revision == run.app_revision);
    for step in run.all_steps().filter(|step| step.is_over()) {
        let was_over = same
            .and_then(|run| run.step(&step.name))
            .is_some_and(StepStatus::is_over);
        // Of a run that was started again from a step, the steps before it are as they were.
        if was_over || earlier.and_then(|run| run.step(&step.name)) == Some(step) {
            continue;
        }
        let started = step.first_execute_time.as_ref().map_or(now, |time| time.0);
        let took = Duration::try_from(now.duration_since(started)).unwrap_or_default();
        metrics.step_ended(&step.type_, word(step.phase), took);
    }
    if run.finished && !same.is_some_and(|run| run.finished) {
        metrics.run_ended(match (run.status, after.phase) {
            (Some(StepPhase::Succeeded), _) => "succeeded",
            (_, Some(ApplicationPhase::WorkflowTerminated)) => "terminated",
            _ => "failed",
        });
    }
}

/// A phase in which a step is over.
fn word(phase: StepPhase) -> &'static str {
    match phase {
        StepPhase::Succeeded => "succeeded",
        StepPhase::Skipped => "skipped",
        _ => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_step_that_is_tried_again_has_not_ended_and_an_end_counts_once() {
        let status = |phase: &str, reason: &str, finished: bool| -> ApplicationStatus {
            serde_json::from_value(json!({"phase": "workflowFailed", "workflow": {
                "startTime": "2026-01-01T00:00:00Z", "finished": finished, "status": if finished { "failed" } else { "running" },
                "steps": [{"name": "east", "type": "deploy", "phase": phase, "reason": reason,
                    "firstExecuteTime": "2026-01-01T00:00:00Z"}]}}))
            .unwrap()
        };
        let now = "2026-01-01T00:00:07Z".parse().unwrap();
        let metrics = Metrics::default();
        let story = [
            status("running", "Wait", false),
            status("failed", "Execute", false),
            status("failed", "FailedAfterRetries", true),
            status("failed", "FailedAfterRetries", true),
        ];
        for pair in story.windows(2) {
            ended(&metrics, &pair[0], &pair[1], now);
        }
        let text = metrics.render();
        let labels = "{type=\"deploy\",phase=\"failed\"}";
        for line in [
            format!("roundhouse_workflow_step_duration_seconds_sum{labels} 7.0\n"),
            format!("roundhouse_workflow_step_duration_seconds_count{labels} 1\n"),
            "roundhouse_workflow_runs_total{outcome=\"failed\"} 1\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
