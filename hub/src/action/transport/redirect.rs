//! What a redirect leads to; pure.

use super::Target;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use roundhouse_api::application::HttpMethod;

/// Headers that one server is trusted with and another is not.
const TRUSTED: [HeaderName; 2] = [header::AUTHORIZATION, header::COOKIE];

/// One request of a chain of redirects.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hop {
    pub(super) target: Target,
    pub(super) method: HttpMethod,
    pub(super) headers: Vec<(HeaderName, HeaderValue, bool)>,
    pub(super) body: Option<Bytes>,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::action) enum RedirectError {
    /// There were too many.
    #[error("it is the {}th, and at most {limit} are followed", .limit + 1)]
    TooMany {
        /// How many are followed.
        limit: usize,
    },
    /// From https to http.
    #[error("it leads from https to http")]
    Downgrade,
    /// It is no address.
    #[error("its Location {reason}")]
    Location {
        /// What is wrong with it.
        reason: String,
    },
}

impl Hop {
    /// The request that an answer asks for; `None`: it is no redirect, and is the answer.
    ///
    /// # Errors
    /// [`RedirectError`]: it asks for one that is not sent.
    pub(super) fn next(&self, status: u16, location: Option<&str>) -> Result<Option<Hop>, RedirectError> {
        let (true, Some(location)) = (matches!(status, 301 | 302 | 303 | 307 | 308), location) else {
            return Ok(None);
        };
        let target = self
            .target
            .join(location)
            .map_err(|reason| RedirectError::Location { reason })?;
        if self.target.https && !target.https {
            return Err(RedirectError::Downgrade);
        }
        // As browsers do (RFC 9110, §15.4): 303 always, 301 and 302 after a POST.
        let becomes_get = match status {
            303 => self.method != HttpMethod::Head,
            301 | 302 => self.method == HttpMethod::Post,
            _ => false,
        };
        let mut next = Hop {
            target,
            ..self.clone()
        };
        if becomes_get {
            next.method = HttpMethod::Get;
            next.body = None;
            next.headers.retain(|(name, ..)| *name != header::CONTENT_TYPE);
        }
        if !self.target.same_origin(&next.target) {
            next.headers
                .retain(|(name, _, secret)| !secret && !TRUSTED.contains(name));
        }
        Ok(Some(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(method: HttpMethod, url: &str) -> Hop {
        let header = |name: &'static str, secret| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static("v"),
                secret,
            )
        };
        Hop {
            target: Target::parse(url).unwrap(),
            method,
            headers: vec![
                header("authorization", false),
                header("content-type", false),
                header("x-plain", false),
                header("x-token", true),
            ],
            body: Some(Bytes::from_static(b"body")),
        }
    }

    /// Method, body, and names of headers.
    fn next(method: HttpMethod, status: u16, location: &str) -> (HttpMethod, bool, Vec<String>) {
        let next = hop(method, "https://a.example/x")
            .next(status, Some(location))
            .unwrap()
            .unwrap();
        let names = next.headers.iter().map(|(name, ..)| name.to_string());
        (next.method, next.body.is_some(), names.collect())
    }

    #[test]
    fn methods_and_bodies_follow_the_status() {
        use HttpMethod::{Get, Head, Post, Put};
        for (method, status, becomes, with_body) in [
            (Post, 301, Get, false),
            (Post, 302, Get, false),
            (Post, 303, Get, false),
            (Put, 303, Get, false),
            (Head, 303, Head, true),
            (Put, 302, Put, true),
            (Post, 307, Post, true),
            (Post, 308, Post, true),
        ] {
            let (method_after, body, _) = next(method, status, "/y");
            assert_eq!((method_after, body), (becomes, with_body), "{method:?} {status}");
        }
    }

    #[test]
    fn other_servers_get_no_secrets() {
        let all = ["authorization", "content-type", "x-plain", "x-token"];
        assert_eq!(next(HttpMethod::Post, 307, "/y").2, all);
        assert_eq!(next(HttpMethod::Post, 307, "https://a.example:443/y").2, all);
        let left = ["content-type", "x-plain"];
        assert_eq!(next(HttpMethod::Post, 307, "https://b.example/").2, left);
        assert_eq!(next(HttpMethod::Post, 307, "https://a.example:444/").2, left);
    }

    #[test]
    fn what_is_no_redirect_and_what_is_not_followed() {
        let from = hop(HttpMethod::Get, "https://a.example/x");
        for (status, location) in [
            (200, Some("/y")),
            (304, Some("/y")),
            (300, Some("/y")),
            (302, None),
        ] {
            assert_eq!(from.next(status, location), Ok(None), "{status}");
        }
        let refused = |location| from.next(302, Some(location)).unwrap_err().to_string();
        assert_eq!(refused("http://a.example/"), "it leads from https to http");
        assert_eq!(
            refused("ftp://a.example/"),
            "its Location has the scheme \"ftp\": only http and https are sent"
        );
        assert_eq!(
            RedirectError::TooMany { limit: 5 }.to_string(),
            "it is the 6th, and at most 5 are followed"
        );
    }
}
