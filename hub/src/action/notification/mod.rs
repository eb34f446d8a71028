//! `notification`: a message to people.

mod message;

use super::{
    Job, Outcome,
    request::{IDEMPOTENCY_KEY, MESSAGE_TIMEOUT, idempotency_key, target},
    runner::Means,
    source,
    transport::Request,
};
use crate::{words, writes};
use bytes::Bytes;
use http::{HeaderValue, header};
use k8s_openapi::{
    api::core::v1::{Event, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Api;
use roundhouse_api::{
    application::{ApplicationStatus, Channel, HttpMethod, Notification},
    names::{HUB_FIELD_MANAGER, OAM_GROUP},
};
use serde_json::{Value, json};

/// Characters of an Event's message; the API server takes no more than 1024 bytes.
const MAX_EVENT: usize = 1000;

/// Sends a step's message to all its channels; without one it becomes an Event of the Application.
pub(super) async fn run(means: &Means, job: &Job, of: &Notification) -> Outcome {
    let text = match &of.text {
        Some(text) => text.clone(),
        None => match source::application(means, job).await {
            Ok(application) => state(job, &application),
            Err(message) => return Outcome::failed(message),
        },
    };
    if of.channels.is_empty() {
        return event(means, job, &text).await;
    }
    let before = job.before.as_ref().and_then(|before| before.get("sent"));
    let before = before.and_then(Value::as_array).map(Vec::as_slice);
    let has_it =
        |channel: &Channel| before.is_some_and(|sent| sent.iter().any(|name| name == channel.as_str()));
    let mut sent = Vec::new();
    let mut failures = Vec::new();
    for channel in &of.channels {
        if has_it(channel) {
            sent.push(channel.as_str());
            continue;
        }
        match tell(means, job, channel, &text).await {
            Ok(()) => sent.push(channel.as_str()),
            Err(message) => failures.push(format!("{}: {message}", channel.as_str())),
        }
    }
    match failures.is_empty() {
        true => Outcome::Done {
            output: json!({"sent": sent, "text": text}),
        },
        // Those that have it are not told again.
        false => Outcome::Failed {
            message: failures.join("; "),
            output: Some(json!({"sent": sent})),
        },
    }
}

fn state(job: &Job, application: &Value) -> String {
    let status = application.get("status").cloned().unwrap_or(Value::Null);
    // A status of a later version says less, not nothing.
    let status: ApplicationStatus = serde_json::from_value(status).unwrap_or_default();
    message::state(job, &status)
}

async fn tell(means: &Means, job: &Job, channel: &Channel, text: &str) -> Result<(), String> {
    let target = target(means, job, channel.url()).await?;
    let host = target.shown();
    let body = serde_json::to_vec(&message::body(job, channel, text))
        .map_err(|error| format!("the message cannot be written: {error}"))?;
    let request = Request {
        method: HttpMethod::Post,
        target,
        headers: vec![
            (
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
                false,
            ),
            (IDEMPOTENCY_KEY, idempotency_key(job, channel.as_str()), false),
        ],
        body: Some(Bytes::from(body)),
        timeout: MESSAGE_TIMEOUT,
    };
    match means.transport.send(request).await {
        Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
        Ok(answer) => Err(format!("{host} answered {}; expected 2xx", answer.shown())),
        Err(error) => Err(error.to_string()),
    }
}

/// One Event for each step of a run, however often it is tried.
async fn event(means: &Means, job: &Job, text: &str) -> Outcome {
    let application = &job.application;
    let key = idempotency_key(job, "event");
    let key = key.to_str().unwrap_or_default();
    let name = format!("{}.{key}", application.name);
    let now = means.clock.now();
    let event = Event {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(application.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(format!("{OAM_GROUP}/v1beta1")),
            kind: Some("Application".to_owned()),
            namespace: Some(application.namespace.clone()),
            name: Some(application.name.clone()),
            uid: Some(application.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some("Normal".to_owned()),
        reason: Some("Notification".to_owned()),
        action: Some(job.step.clone()),
        message: Some(text.chars().take(MAX_EVENT).collect()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        reporting_component: Some(HUB_FIELD_MANAGER.to_owned()),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(means.client.clone(), &application.namespace);
    match api.create(&writes::post(), &event).await {
        Ok(_) => {}
        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
        Err(error) => {
            return Outcome::failed(format!("writing Event {name} failed: {}", words::said(&error)));
        }
    }
    Outcome::Done {
        output: json!({"event": name, "text": text}),
    }
}
