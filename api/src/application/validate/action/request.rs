//! `request` and `webhook`.

use super::super::{
    node::{Node, Object, Shape, shown},
    step,
};
use super::source::{check_url, text_source};
use crate::application::{
    Body, ExpectedStatus, HttpMethod, HttpRequest, REQUEST_TIMEOUT, StatusRange, TextSource,
};
use serde_json::Value;
use std::time::Duration;

/// A step may not hold a place among those that act for longer.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
const STATUS_HINT: &str =
    "write a status such as 200, a class such as \"2xx\", a range such as \"200-204\", or \"any\"";

const REQUEST: Shape = Shape {
    known: &[&[
        "url",
        "method",
        "headers",
        "header",
        "body",
        "timeout",
        "expectedStatus",
    ]],
    refused: &[("data", "data is webhook's: of a request write body")],
};
const WEBHOOK: Shape = Shape {
    known: &[&[
        "url",
        "method",
        "headers",
        "data",
        "body",
        "timeout",
        "expectedStatus",
    ]],
    refused: &[],
};

/// Headers that the connection is made of.
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
];

/// `request`: KubeVela's url, method, body and header, and more.
pub(super) fn request(node: &Node<'_>) -> Option<HttpRequest> {
    let object = node.object(&REQUEST)?;
    let body = object.present("body").map(|node| body(&node));
    // As KubeVela, but a body has to be sent with something.
    let method = method(&object).unwrap_or(match body {
        None => Some(HttpMethod::Get),
        Some(_) => Some(HttpMethod::Post),
    });
    if let (Some(method), Some(node)) = (method, object.present("body"))
        && !method.has_body()
    {
        node.refuse(format!(
            "a {} has no body: leave it out, or set method to POST or PUT",
            method.as_str()
        ));
    }
    read(&object, method, body.unwrap_or(Body::Empty))
}

/// `webhook`: KubeVela's url and data, and more.
pub(super) fn webhook(node: &Node<'_>) -> Option<HttpRequest> {
    let object = node.object(&WEBHOOK)?;
    let method = method(&object).unwrap_or(Some(HttpMethod::Post));
    let given = object.present("data").or_else(|| object.present("body"));
    if object.present("data").is_some()
        && let Some(node) = object.present("body")
    {
        node.refuse("is another name of data: keep one of them");
    }
    let bodiless = method.is_some_and(|method| !method.has_body());
    if let (true, Some(node), Some(method)) = (bodiless, &given, method) {
        node.refuse(format!(
            "a {} has no body: leave it out, or leave method out",
            method.as_str()
        ));
    }
    let body = match given {
        Some(node) => body(&node),
        None if bodiless => Body::Empty,
        None => Body::Application,
    };
    read(&object, method, body)
}

fn read(object: &Object<'_>, method: Option<HttpMethod>, body: Body) -> Option<HttpRequest> {
    let url = url(object);
    let headers = headers(object);
    let timeout = timeout(object);
    let expected = expected(object);
    Some(HttpRequest {
        method: method?,
        url: url?,
        headers: headers?,
        body,
        timeout: timeout?,
        expected: expected?,
    })
}

/// `url`.
pub(super) fn url(object: &Object<'_>) -> Option<TextSource> {
    let node = object.required("url", "name the address, such as https://example.org/hook")?;
    let url = text_source(&node)?;
    if let TextSource::Plain(text) = &url
        && let Err(reason) = check_url(text)
    {
        node.refuse(reason);
        return None;
    }
    Some(url)
}

/// `None`: not given; `Some(None)`: not understood.
fn method(object: &Object<'_>) -> Option<Option<HttpMethod>> {
    object.optional("method").map(|node| node.word(&HttpMethod::ALL))
}

fn body(node: &Node<'_>) -> Body {
    match node.value {
        Value::String(text) => Body::Text(text.clone()),
        value => Body::Json(value.clone()),
    }
}

fn headers(object: &Object<'_>) -> Option<Vec<(String, TextSource)>> {
    if object.optional("headers").is_some()
        && let Some(node) = object.optional("header")
    {
        node.refuse("is another name of headers: keep one of them");
        return None;
    }
    let Some(node) = object.optional("headers").or_else(|| object.optional("header")) else {
        return Some(Vec::new());
    };
    let mut headers: Vec<(String, TextSource)> = Vec::new();
    let mut whole = true;
    for (name, value) in node.entries()? {
        let lower = name.to_ascii_lowercase();
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            value.refuse(format!("{name:?} is no name of a header"));
            whole = false;
        } else if RESERVED.contains(&lower.as_str()) {
            value.refuse("is set by the hub: leave it out");
            whole = false;
        } else if headers.iter().any(|(name, _)| *name == lower) {
            value.refuse("is given twice, in another case: keep one of them");
            whole = false;
        } else if let Some(source) = text_source(&value) {
            if let TextSource::Plain(text) = &source
                && let Err(reason) = check_header(text)
            {
                value.refuse(reason);
                whole = false;
            }
            headers.push((lower, source));
        } else {
            whole = false;
        }
    }
    whole.then_some(headers)
}

/// Whether a header may have this value.
///
/// # Errors
/// What is wrong with it, without the value: it may be a secret.
pub fn check_header(value: &str) -> Result<(), String> {
    match value.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) {
        true => Ok(()),
        false => Err("has characters that a header cannot have, such as a line break".to_owned()),
    }
}

fn timeout(object: &Object<'_>) -> Option<Duration> {
    let Some(node) = object.optional("timeout") else {
        return Some(REQUEST_TIMEOUT);
    };
    let timeout = step::duration(&node)?;
    if timeout > MAX_TIMEOUT {
        node.refuse(format!(
            "{} is too long: a request may take {} s at most; for longer work ask for its state with the next try",
            shown(node.value),
            MAX_TIMEOUT.as_secs()
        ));
        return None;
    }
    Some(timeout)
}

fn expected(object: &Object<'_>) -> Option<ExpectedStatus> {
    let Some(node) = object.optional("expectedStatus") else {
        return Some(ExpectedStatus::default());
    };
    let nodes = match node.value.is_array() {
        true => node.list()?,
        false => vec![node.clone()],
    };
    if nodes.is_empty() {
        node.refuse(format!("is empty: {STATUS_HINT}, or leave it out for 2xx"));
        return None;
    }
    let one = |node: &Node<'_>| {
        let range = match node.value {
            Value::String(text) => StatusRange::parse(text),
            Value::Number(number) => StatusRange::parse(&number.to_string()),
            _ => None,
        };
        if range.is_none() {
            node.refuse(format!("{} is no status: {STATUS_HINT}", shown(node.value)));
        }
        range
    };
    let ranges: Vec<Option<StatusRange>> = nodes.iter().map(one).collect();
    ranges.into_iter().collect::<Option<_>>().map(ExpectedStatus)
}
