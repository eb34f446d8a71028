//! What steps that place nothing do, in a few words.

use super::screen::{Screen, listed};
use crate::{
    plan::{Action, ApplicationPlan},
    words,
};
use roundhouse_api::application::{
    ClusterObjectStep, ClusterVerb, Condition, DeployStep, Mode, ReadyShare, StepKind, Until, ValidStep,
    WaitFor, WaitStep,
};

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
                &format!("waits {}, or until it is resumed", words::time(duration)),
                &suspend.message,
            ),
            None => because("waits until it is resumed", &suspend.message),
        },
        StepKind::Group(group) => match group.mode {
            Mode::Dag => "runs the steps in it side by side".to_owned(),
            Mode::StepByStep => "runs the steps in it one after the other".to_owned(),
        },
        StepKind::Wait(WaitStep::Fleet { until: holds, .. }) => format!("waits until {}", until(holds)),
        StepKind::Wait(WaitStep::Object { object, until }) => {
            format!("waits until {until} holds of {object} on the hub")
        }
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
        StepKind::ClusterObject(object) => object_words(object),
    })
}

fn object_words(step: &ClusterObjectStep) -> String {
    let identity = step.identity();
    let text = |pointer: &str| identity.pointer(pointer).and_then(|value| value.as_str());
    let rule = step.placement.placement.first();
    let place = match rule.map(|rule| (&rule.clusters, &rule.cluster_selector)) {
        Some((Some(names), _)) => names.join(", "),
        Some((None, Some(selector))) => {
            let labels = selector
                .match_labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"));
            let requirements = selector.match_expressions.iter().map(words::requirement);
            let all: Vec<String> = labels.chain(requirements).collect();
            match all.is_empty() {
                true => "every cluster".to_owned(),
                false => format!("the clusters with {}", all.join(", ")),
            }
        }
        _ => "every cluster".to_owned(),
    };
    let (does, waits) = match step.verb {
        ClusterVerb::Apply => ("applies", "waits until it is ready"),
        ClusterVerb::Read => ("reads", "waits until it is there"),
        ClusterVerb::Delete => ("deletes", "waits until it is gone"),
    };
    let kind = text("/kind").unwrap_or("an object");
    match text("/metadata/name") {
        Some(name) => format!("{does} {kind} {name} in {place}, {waits}"),
        None => format!("{does} {kind} in {place}, {waits}"),
    }
}

/// Where the object of a step is, then where it is only for a time, and a line for each thing that is not known before the run.
pub(super) fn object(plan: &ApplicationPlan, step: &str, screen: &Screen) -> Vec<String> {
    let Some(object) = plan.objects.iter().find(|object| object.step == step) else {
        return Vec::new();
    };
    let changes = |action| {
        let own = plan.bundles.iter().filter(|bundle| bundle.step == step);
        own.filter(|bundle| bundle.action == action && bundle.is_of_step())
            .count()
    };
    let counts =
        [Action::Add, Action::Change, Action::Destroy].map(|action| (changes(action), action.word()));
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, word)| format!("{} to {word}", words::thousands(*count as u64)))
        .collect();
    let counts = match counts.as_slice() {
        [] => String::new(),
        counts => format!(", {}", counts.join(", ")),
    };
    let start = format!("{}{counts}", words::counted(object.clusters.len(), "cluster"));
    let left = screen
        .width
        .map(|width| width.saturating_sub(start.chars().count() + 6));
    let first = match object.clusters.is_empty() {
        true => "no cluster".to_owned(),
        false => format!("{start}: {}", listed(&object.clusters, left)),
    };
    let mut lines = vec![first];
    if !object.for_a_time.is_empty() {
        let left = screen.width.map(|width| width.saturating_sub(40));
        lines.push(format!(
            "until it is taken away again: {}",
            listed(&object.for_a_time, left)
        ));
    }
    lines.extend(object.unknown.iter().cloned());
    lines
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
                {"type": "request", "properties": {"url": "https://x"}},
                {"type": "wait", "properties": {"until": "object.data.a == '1'",
                    "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}}},
                {"type": "apply-object", "properties": {"clusters": {"region": "east"},
                    "value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}}}},
                {"type": "read-object", "properties": {"clusters": ["c1", "c2"], "apiVersion": "v1", "kind": "Pod", "name": "x"}},
                {"type": "read-object", "properties": {"clusters": {}, "apiVersion": "v1", "kind": "Pod", "name": "x"}}
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
                "waits until object.data.a == '1' holds of ConfigMap flags on the hub",
                "applies ConfigMap flags in the clusters with region=east, waits until it is ready",
                "reads Pod x in c1, c2, waits until it is there",
                "reads Pod x in every cluster, waits until it is there",
            ]
        );
    }
}
