//! What a message says, and how each channel wants it; pure.

use crate::action::Job;
use roundhouse_api::application::{ApplicationStatus, Channel, StepPhase, StepStatus};
use serde_json::{Value, json};

/// Steps that a text names at most.
const MAX_STEPS: usize = 10;
/// Characters of a step's own message.
const MAX_MESSAGE: usize = 200;

/// How the application stands, in a few lines.
pub(super) fn state(job: &Job, status: &ApplicationStatus) -> String {
    let application = &job.application;
    let mut lines = vec![format!(
        "Application {}/{}, revision {}",
        application.namespace, application.name, job.revision
    )];
    if let Some(delivery) = &status.delivery {
        lines.push(format!(
            "clusters ready {}, replicas ready {}",
            delivery.clusters_ready, delivery.replicas_ready
        ));
    }
    let steps: Vec<&StepStatus> = status
        .workflow
        .iter()
        .flat_map(|workflow| workflow.all_steps())
        // Who reads the message knows that it is being sent.
        .filter(|step| step.name != job.step && step.phase != StepPhase::Pending)
        .collect();
    let is_news = |step: &&&StepStatus| !matches!(step.phase, StepPhase::Succeeded | StepPhase::Skipped);
    let names = |phase: StepPhase| {
        let names = steps
            .iter()
            .filter(|step| step.phase == phase)
            .map(|step| step.name.as_str());
        names.take(MAX_STEPS).collect::<Vec<_>>().join(", ")
    };
    for step in steps.iter().filter(is_news).take(MAX_STEPS) {
        let word = match step.phase {
            StepPhase::Failed => "failed",
            StepPhase::Suspending => "is suspended",
            _ => "is running",
        };
        let mut line = format!("step {} {word}", step.name);
        if let Some(message) = &step.message {
            line.push_str(": ");
            line.extend(message.chars().take(MAX_MESSAGE));
        }
        lines.push(line);
    }
    for (phase, word) in [
        (StepPhase::Succeeded, "succeeded"),
        (StepPhase::Skipped, "skipped"),
    ] {
        let names = names(phase);
        if !names.is_empty() {
            lines.push(format!("{word}: {names}"));
        }
    }
    lines.join("\n")
}

/// The body that a channel takes.
pub(super) fn body(job: &Job, channel: &Channel, text: &str) -> Value {
    match channel {
        Channel::Slack { message, .. } => {
            let mut message = message.clone();
            message.entry("text").or_insert_with(|| Value::from(text));
            Value::Object(message)
        }
        // What the webhook trigger of a Teams workflow takes: an adaptive card in a message.
        Channel::Teams { text: own, .. } => json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": own.as_deref().unwrap_or(text).lines()
                        .map(|line| json!({"type": "TextBlock", "text": line, "wrap": true}))
                        .collect::<Vec<_>>(),
                },
            }],
        }),
        Channel::Webhook { text: own, .. } => json!({
            "text": own.as_deref().unwrap_or(text),
            "application": {"namespace": job.application.namespace, "name": job.application.name},
            "revision": job.revision,
            "step": job.step,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::{
        application::{ActionProperties, Delivery, TextSource, WorkflowStatus},
        bundle::ApplicationRef,
    };

    fn job() -> Job {
        Job {
            application: ApplicationRef {
                namespace: "default".to_owned(),
                name: "web".to_owned(),
                uid: "u".to_owned(),
            },
            revision: "web-v3".to_owned(),
            run: "r".to_owned(),
            step: "tell".to_owned(),
            attempt: 1,
            before: None,
            action: ActionProperties::read("notification", &Value::Null).unwrap(),
        }
    }

    fn step(name: &str, phase: StepPhase, message: Option<&str>) -> StepStatus {
        StepStatus {
            name: name.to_owned(),
            phase,
            message: message.map(str::to_owned),
            ..StepStatus::default()
        }
    }

    #[test]
    fn a_text_says_how_the_application_stands() {
        let status = ApplicationStatus {
            delivery: Some(Delivery {
                clusters_ready: "7/10".to_owned(),
                replicas_ready: "70/100".to_owned(),
                ..Delivery::default()
            }),
            workflow: Some(WorkflowStatus {
                steps: vec![
                    step("east", StepPhase::Succeeded, None),
                    step("approve", StepPhase::Skipped, None),
                    step("west", StepPhase::Failed, Some("cluster c4: no image")),
                    step("tell", StepPhase::Running, None),
                    step("later", StepPhase::Pending, None),
                ],
                ..WorkflowStatus::default()
            }),
            ..ApplicationStatus::default()
        };
        assert_eq!(
            state(&job(), &status),
            "Application default/web, revision web-v3\n\
             clusters ready 7/10, replicas ready 70/100\n\
             step west failed: cluster c4: no image\n\
             succeeded: east\n\
             skipped: approve"
        );
        assert_eq!(
            state(&job(), &ApplicationStatus::default()),
            "Application default/web, revision web-v3"
        );
    }

    #[test]
    fn channels_get_what_they_take() {
        let url = TextSource::Plain("https://x".to_owned());
        let slack = |message: Value| Channel::Slack {
            url: url.clone(),
            message: message.as_object().cloned().unwrap(),
        };
        assert_eq!(body(&job(), &slack(json!({})), "a"), json!({"text": "a"}));
        assert_eq!(
            body(&job(), &slack(json!({"text": "b", "mrkdwn": true})), "a"),
            json!({"text": "b", "mrkdwn": true})
        );
        let teams = body(
            &job(),
            &Channel::Teams {
                url: url.clone(),
                text: None,
            },
            "a\nb",
        );
        assert_eq!(teams["type"], "message");
        assert_eq!(
            teams["attachments"][0]["content"]["body"],
            json!([{"type": "TextBlock", "text": "a", "wrap": true}, {"type": "TextBlock", "text": "b", "wrap": true}])
        );
        assert_eq!(
            body(
                &job(),
                &Channel::Webhook {
                    url,
                    text: Some("b".to_owned())
                },
                "a"
            ),
            json!({"text": "b", "application": {"namespace": "default", "name": "web"}, "revision": "web-v3", "step": "tell"})
        );
    }
}
