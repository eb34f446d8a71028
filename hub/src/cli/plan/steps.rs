//! What steps that place nothing do, in a few words.

use roundhouse_api::application::{
    Condition, DeployStep, Mode, ReadyShare, StepKind, Until, ValidStep, WaitFor,
};
use std::time::Duration;

/// What a step does; `None` of a placing step, which says more.
pub(super) fn words(step: &ValidStep) -> Option<String> {
    let because = |text: &str, message: &Option<String>| match message {
        Some(message) => format!("{text}: {message}"),
        None => text.to_owned(),
    };
    Some(match &step.kind {
        StepKind::Deploy(_) => return None,
        StepKind::Suspend(suspend) => match suspend.duration {
            Some(duration) => because(
                &format!("waits {}, or until it is resumed", time(duration)),
                &suspend.message,
            ),
            None => because("waits until it is resumed", &suspend.message),
        },
        StepKind::Group(group) => match group.mode {
            Mode::Dag => "runs the steps in it side by side".to_owned(),
            Mode::StepByStep => "runs the steps in it one after the other".to_owned(),
        },
        StepKind::Wait(wait) => format!("waits until {}", until(&wait.until)),
        StepKind::Break { message } => because("ends the workflow", message),
        StepKind::Fail { message } => because("fails", message),
        StepKind::Export(export) => match &export.component {
            Some(component) => format!("changes component {component} for the steps behind it"),
            None => "gives a value to the steps behind it".to_owned(),
        },
        StepKind::Rollback { to: Some(revision) } => format!("goes back to revision {revision}"),
        StepKind::Rollback { to: None } => {
            "goes back to the last revision that was delivered whole".to_owned()
        }
        StepKind::Act(_) => format!("runs {}", step.type_),
    })
}

/// When a step runs, where that is not always; with what stands before it.
pub(super) fn condition(step: &ValidStep) -> String {
    match &step.condition {
        None => String::new(),
        Some(Condition::Always) => ", whatever happened before".to_owned(),
        Some(Condition::When(expression)) => format!(", if {expression}"),
    }
}

/// What a placing step waits for.
pub(super) fn wait(deploy: &DeployStep) -> String {
    let waits = match (&deploy.until, deploy.wait) {
        (Some(holds), _) => format!("waits until {}", until(holds)),
        (None, WaitFor::Ready) => "waits until they are ready".to_owned(),
        (None, WaitFor::Applied) => "waits until they are applied".to_owned(),
        (None, WaitFor::None) => "does not wait".to_owned(),
    };
    match deploy.max_parallel {
        Some(1) => format!("one cluster at a time, {waits}"),
        Some(most) => format!("{most} clusters at a time, {waits}"),
        None => waits,
    }
}

fn until(until: &Until) -> String {
    match until {
        Until::Ready(ReadyShare::Percent(percent)) => format!("{percent} of the clusters are ready"),
        Until::Ready(ReadyShare::Count(count)) => format!("{count} clusters are ready"),
        Until::Holds(expression) => expression.to_string(),
    }
}

/// `1h30m`, as it would be written.
fn time(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let text: String = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    match text.is_empty() {
        true => format!("{}ms", duration.as_millis()),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::application::validate;
    use serde_json::json;

    #[test]
    fn every_type_of_step_is_put_in_words() {
        let valid = validate(&json!({
            "components": [{"name": "web", "type": "worker", "properties": {"image": "x"}}],
            "workflow": {"steps": [
                {"type": "deploy", "properties": {"placement": [{}], "maxParallel": 3, "wait": {"until": {"ready": "90%"}}}},
                {"type": "suspend"},
                {"type": "suspend", "if": "always", "properties": {"message": "look", "duration": "90m"}},
                {"type": "step-group", "subSteps": [{"type": "wait", "properties": {"until": "fleet.ready > 3"}}]},
                {"type": "wait", "if": "status.step-0.failed", "properties": {"until": {"ready": 3}}},
                {"type": "break", "properties": {"message": "enough"}},
                {"type": "fail"},
                {"type": "export", "properties": {"value": 1}},
                {"type": "export", "properties": {"type": "patch", "component": "web", "value": {}}},
                {"type": "rollback", "properties": {"to": "app-v1"}},
                {"type": "rollback"},
                {"type": "request", "properties": {"url": "https://x"}}
            ]}
        }));
        let valid = valid.unwrap();
        let shown: Vec<String> = valid
            .all_steps()
            .map(|step| {
                let words = words(step).or(step.kind.deploy().map(wait)).unwrap_or_default();
                format!("{words}{}", condition(step))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "3 clusters at a time, waits until 90% of the clusters are ready",
                "waits until it is resumed",
                "waits 1h30m, or until it is resumed: look, whatever happened before",
                "runs the steps in it side by side",
                "waits until fleet.ready > 3",
                "waits until 3 clusters are ready, if status.step-0.failed",
                "ends the workflow: enough",
                "fails",
                "gives a value to the steps behind it",
                "changes component web for the steps behind it",
                "goes back to revision app-v1",
                "goes back to the last revision that was delivered whole",
                "runs request",
            ]
        );
    }
}
