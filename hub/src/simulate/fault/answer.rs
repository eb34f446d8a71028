//! Answers that are made up.

use crate::simulate::{Answer, AnswerBody};
use bytes::Bytes;
use http::{Response, header};
use http_body_util::{BodyExt, Full};
use serde_json::json;

/// What an API server says of an error.
fn status(code: u16) -> Bytes {
    let (reason, message) = match code {
        403 => (
            "Forbidden",
            "admission webhook \"simulated\" denied the request: a simulated fault",
        ),
        404 => ("NotFound", "a simulated fault: not found"),
        409 => ("Conflict", "a simulated fault: the object has been modified"),
        410 => ("Expired", "a simulated fault: too old resource version"),
        429 => ("TooManyRequests", "a simulated fault: too many requests"),
        503 => ("ServiceUnavailable", "a simulated fault: try again later"),
        _ => ("InternalError", "a simulated fault"),
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code});
    status.to_string().into()
}

/// An answer with this code.
pub(super) fn refusal(code: u16, retry_after: Option<u32>) -> Answer {
    let mut response = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    Ok(response.body(whole(status(code)))?)
}

/// The last line of a watch whose version is too old.
pub(super) fn gone() -> Bytes {
    let mut line = br#"{"type":"ERROR","object":"#.to_vec();
    line.extend_from_slice(&status(410));
    line.extend_from_slice(b"}\n");
    line.into()
}

fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}
