//! `request` and `webhook`.

use super::{
    Job, Outcome,
    runner::Means,
    source,
    transport::{Answer, Request, SendError, Target},
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use roundhouse_api::{
    application::{Body, ExpectedStatus, HttpRequest, TextSource, check_header},
    hash,
};
use std::time::Duration;

/// Hex digits of an idempotency key.
const KEY: usize = 32;

/// Sends a step's request. The step succeeds with an expected status; with another one it fails, and what was answered is
/// its output all the same, so that later steps can look at the status.
pub(super) async fn run(means: &Means, job: &Job, of: &HttpRequest) -> Outcome {
    let request = match prepare(means, job, of).await {
        Ok(request) => request,
        Err(message) => return Outcome::failed(message),
    };
    let host = request.target.shown();
    conclude(&host, &of.expected, means.transport.send(request).await)
}

fn conclude(host: &str, expected: &ExpectedStatus, sent: Result<Answer, SendError>) -> Outcome {
    match sent {
        Ok(answer) if expected.contains(answer.status) => Outcome::Done {
            output: answer.output(),
        },
        Ok(answer) => Outcome::Failed {
            message: format!("{host} answered {}; expected {expected}", answer.shown()),
            output: Some(answer.output()),
        },
        Err(error) => Outcome::failed(error.to_string()),
    }
}

async fn prepare(means: &Means, job: &Job, of: &HttpRequest) -> Result<Request, String> {
    let target = target(means, job, &of.url).await?;
    let mut headers = Vec::new();
    for (name, value) in &of.headers {
        headers.push(head(means, job, name, value).await?);
    }
    let (body, content_type) = match &of.body {
        Body::Empty => (None, None),
        Body::Text(text) => (Some(text.clone().into_bytes()), Some("text/plain; charset=utf-8")),
        Body::Json(value) => (Some(json(value)?), Some("application/json")),
        Body::Application => {
            let application = source::application(means, job).await?;
            (Some(json(&application)?), Some("application/json"))
        }
    };
    let mut default = |name: HeaderName, value: HeaderValue| {
        if !headers.iter().any(|(own, ..)| *own == name) {
            headers.push((name, value, false));
        }
    };
    if let Some(content_type) = content_type {
        default(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    default(IDEMPOTENCY_KEY, idempotency_key(job, ""));
    Ok(Request {
        method: of.method,
        target,
        headers,
        body: body.map(Bytes::from),
        timeout: of.timeout,
    })
}

/// The address of a request.
pub(super) async fn target(means: &Means, job: &Job, url: &TextSource) -> Result<Target, String> {
    let text = source::text(means, job, url).await?;
    Target::parse(&text.value).map_err(|reason| format!("url: {} {reason}", source::title(url)))
}

async fn head(
    means: &Means,
    job: &Job,
    name: &str,
    value: &TextSource,
) -> Result<(HeaderName, HeaderValue, bool), String> {
    let text = source::text(means, job, value).await?;
    let wrong = |reason: &str| format!("header {name}: {} {reason}", source::title(value));
    check_header(&text.value).map_err(|reason| wrong(&reason))?;
    let value = HeaderValue::from_str(&text.value).map_err(|_| wrong("cannot be the value of a header"))?;
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("has no name of a header"))?;
    Ok((name, value, text.secret))
}

fn json(value: &serde_json::Value) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| format!("the body cannot be written: {error}"))
}

/// The header by which a receiver knows a repeated request (draft-ietf-httpapi-idempotency-key-header).
pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What that header says for a part of a step: [`Job::idempotency_key`], without showing what it is made of.
pub(super) fn idempotency_key(job: &Job, part: &str) -> HeaderValue {
    let mut key = hash::sha256(format!("{}/{part}", job.idempotency_key()).as_bytes());
    key.truncate(KEY);
    HeaderValue::try_from(key).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

/// How long a message may take.
pub(super) const MESSAGE_TIMEOUT: Duration = roundhouse_api::application::REQUEST_TIMEOUT;
