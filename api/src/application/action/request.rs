//! An HTTP request as a step asks for it.

use serde_json::Value;
use std::{fmt, time::Duration};

/// How long a request may take where its step does not say, redirects and answer included.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Its method.
    pub method: HttpMethod,
    /// Its address.
    pub url: TextSource,
    /// Headers: lower-case name and value.
    pub headers: Vec<(String, TextSource)>,
    /// What is sent.
    pub body: Body,
    /// It fails when it takes longer, redirects and answer included.
    pub timeout: Duration,
    /// The statuses with which it succeeds.
    pub expected: ExpectedStatus,
}

/// A text that may be a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum TextSource {
    /// As it is written.
    Plain(String),
    /// What a Secret of the application's namespace holds.
    Secret(SecretKey),
}

impl fmt::Debug for TextSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextSource::Plain(text) => text.fmt(f),
            TextSource::Secret(key) => key.fmt(f),
        }
    }
}

/// A key of a Secret in the application's namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretKey {
    /// Name of the Secret.
    pub name: String,
    /// Key of its data.
    pub key: String,
}

/// What a request sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// A text, as it is.
    Text(String),
    /// JSON.
    Json(Value),
    /// The Application, as JSON.
    Application,
}

/// The methods of HTTP that steps may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `PATCH`
    Patch,
    /// `DELETE`
    Delete,
}

impl HttpMethod {
    /// All of them, with their names.
    pub const ALL: [(&str, HttpMethod); 6] = [
        ("GET", HttpMethod::Get),
        ("HEAD", HttpMethod::Head),
        ("POST", HttpMethod::Post),
        ("PUT", HttpMethod::Put),
        ("PATCH", HttpMethod::Patch),
        ("DELETE", HttpMethod::Delete),
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        let named = HttpMethod::ALL.iter().find(|(_, method)| *method == self);
        named.map_or("GET", |(name, _)| name)
    }

    /// Whether a request of this method may have a body.
    pub fn has_body(self) -> bool {
        !matches!(self, HttpMethod::Get | HttpMethod::Head)
    }
}

/// Statuses with which a request succeeds: those of any of its ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedStatus(pub Vec<StatusRange>);

/// Statuses from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    /// The first.
    pub from: u16,
    /// The last.
    pub to: u16,
}

impl StatusRange {
    /// One status.
    pub fn one(status: u16) -> StatusRange {
        StatusRange {
            from: status,
            to: status,
        }
    }

    /// Reads `204`, `2xx`, `200-204` or `any`.
    pub fn parse(text: &str) -> Option<StatusRange> {
        let code = |text: &str| text.parse::<u16>().ok().filter(|c| (100..=599).contains(c));
        if text == "any" {
            return Some(StatusRange { from: 100, to: 599 });
        }
        if let Some(class) = text.strip_suffix("xx") {
            let class = class.parse::<u16>().ok().filter(|c| (1..=5).contains(c))?;
            return Some(StatusRange {
                from: class * 100,
                to: class * 100 + 99,
            });
        }
        match text.split_once('-') {
            Some((from, to)) => {
                let (from, to) = (code(from)?, code(to)?);
                (from <= to).then_some(StatusRange { from, to })
            }
            None => code(text).map(StatusRange::one),
        }
    }
}

impl Default for ExpectedStatus {
    /// 2xx.
    fn default() -> Self {
        ExpectedStatus(vec![StatusRange { from: 200, to: 299 }])
    }
}

impl ExpectedStatus {
    /// Whether a status is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0
            .iter()
            .any(|range| (range.from..=range.to).contains(&status))
    }
}

impl fmt::Display for ExpectedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, StatusRange { from, to }) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            match (from, to) {
                (100, 599) => f.write_str("any")?,
                (from, to) if from == to => write!(f, "{from}")?,
                (from, to) if from % 100 == 0 && *to == from + 99 => write!(f, "{}xx", from / 100)?,
                (from, to) => write!(f, "{from}-{to}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_and_written() {
        for (text, inside, outside) in [
            ("204", &[204][..], &[203, 205][..]),
            ("2xx", &[200, 299], &[199, 300]),
            ("200-204", &[200, 204], &[205]),
            ("any", &[100, 404, 599], &[]),
        ] {
            let expected = ExpectedStatus(vec![StatusRange::parse(text).unwrap()]);
            assert_eq!(expected.to_string(), text);
            assert!(inside.iter().all(|code| expected.contains(*code)), "{text}");
            assert!(!outside.iter().any(|code| expected.contains(*code)), "{text}");
        }
        for text in [
            "", "20", "600", "6xx", "xx", "204-200", "2x", "200-", "-200", "ok",
        ] {
            assert_eq!(StatusRange::parse(text), None, "{text}");
        }
        let both = ExpectedStatus(vec![StatusRange::one(200), StatusRange { from: 400, to: 499 }]);
        assert_eq!(both.to_string(), "200, 4xx");
        assert!(ExpectedStatus::default().contains(204) && !ExpectedStatus::default().contains(302));
    }
}
