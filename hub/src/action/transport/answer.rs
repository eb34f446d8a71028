//! An answer, as far as it is kept.

use super::SendError;
use http::header;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use serde_json::{Map, Value, json};

/// Bytes of a body that are taken in: values of steps live in the Application's status.
pub(in crate::action) const MAX_BODY: usize = 64 * 1024;
/// Characters of a body that a message shows.
const MAX_SHOWN: usize = 200;

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::action) struct Answer {
    pub(in crate::action) status: u16,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The header `Location`.
    pub(super) fn location(&self) -> Option<String> {
        let location = self.headers.get(header::LOCATION)?;
        Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
    }

    /// What other steps may name of it: `statusCode` and `responseCode` (the seed's name), `headers` by their lower-case
    /// names, and `body`, parsed where it is JSON. Cookies are left out: they are credentials.
    pub(in crate::action) fn output(&self) -> Value {
        let mut headers = Map::new();
        for name in self.headers.keys().filter(|name| **name != header::SET_COOKIE) {
            let values = self.headers.get_all(name).iter();
            let values: Vec<_> = values
                .map(|value| String::from_utf8_lossy(value.as_bytes()))
                .collect();
            headers.insert(name.as_str().to_owned(), Value::from(values.join(", ")));
        }
        let text = String::from_utf8_lossy(&self.body);
        let body = match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => value,
            Err(_) if self.body.is_empty() => Value::Null,
            Err(_) => Value::from(text.into_owned()),
        };
        json!({"statusCode": self.status, "responseCode": self.status, "headers": headers, "body": body})
    }

    /// The status and the beginning of the body, for people.
    pub(in crate::action) fn shown(&self) -> String {
        let status = http::StatusCode::from_u16(self.status).ok();
        let reason = status
            .and_then(|status| status.canonical_reason())
            .unwrap_or_default();
        let text = String::from_utf8_lossy(&self.body);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut shown = format!("{} {reason}", self.status).trim_end().to_owned();
        if !words.is_empty() {
            shown.push_str(": ");
            shown.extend(words.chars().take(MAX_SHOWN));
            if words.chars().count() > MAX_SHOWN {
                shown.push('…');
            }
        }
        shown
    }
}

/// Reads an answer, and no more than [`MAX_BODY`] of it.
pub(super) async fn read(answer: http::Response<Incoming>, host: &str) -> Result<Answer, SendError> {
    let too_large = || SendError::TooLarge {
        host: host.to_owned(),
        limit: MAX_BODY / 1024,
    };
    let (head, mut incoming) = answer.into_parts();
    let status = head.status.as_u16();
    let mut body = Vec::new();
    // The body of a redirect is for people without one who follows.
    let redirects = head.status.is_redirection() && head.headers.contains_key(header::LOCATION);
    if !redirects {
        if incoming.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_large());
        }
        while let Some(frame) = incoming.frame().await {
            let frame = frame.map_err(|error| SendError::Exchange {
                host: host.to_owned(),
                reason: super::chain(&error),
            })?;
            let Some(piece) = frame.data_ref() else { continue };
            if body.len() + piece.len() > MAX_BODY {
                return Err(too_large());
            }
            body.extend_from_slice(piece);
        }
    }
    Ok(Answer {
        status,
        headers: head.headers,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &[u8]) -> Answer {
        let headers = headers.iter().map(|(name, value)| {
            (
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )
        });
        let mut all = http::HeaderMap::new();
        for (name, value) in headers {
            all.append(name, value);
        }
        Answer {
            status,
            headers: all,
            body: body.to_vec(),
        }
    }

    #[test]
    fn outputs_are_what_steps_name() {
        let headers = [
            ("x-a", "1"),
            ("x-a", "2"),
            ("set-cookie", "session=s"),
            ("content-type", "application/json"),
        ];
        assert_eq!(
            answer(201, &headers, br#"{"url": "https://x", "n": [1]}"#).output(),
            json!({"statusCode": 201, "responseCode": 201,
                "headers": {"x-a": "1, 2", "content-type": "application/json"},
                "body": {"url": "https://x", "n": [1]}})
        );
        for (body, value) in [
            (&b""[..], Value::Null),
            (b"ok", json!("ok")),
            (b"{broken", json!("{broken")),
            (b"\xffx", json!("\u{fffd}x")),
            (b"3", json!(3)),
        ] {
            assert_eq!(answer(200, &[], body).output()["body"], value);
        }
    }

    #[test]
    fn answers_are_shown_in_a_line() {
        for (status, body, shown) in [
            (404, &b""[..], "404 Not Found"),
            (400, b"invalid\n payload", "400 Bad Request: invalid payload"),
            (599, b"x", "599: x"),
        ] {
            assert_eq!(answer(status, &[], body).shown(), shown);
        }
        let long = answer(500, &[], "é".repeat(300).as_bytes()).shown();
        assert_eq!(
            long.chars().count(),
            "500 Internal Server Error: ".len() + MAX_SHOWN + 1
        );
    }
}
