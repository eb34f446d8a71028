//! Query parameters.

use std::time::Duration;

use crate::error::{ApiError, Cause};

/// How a list's `resourceVersion` is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    NotOlderThan,
    Exact,
    /// None of the two.
    Unknown,
}

/// What to do about unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// What becomes of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    /// Reads the API's name of it.
    pub(crate) fn parse(text: &str) -> Result<Self, Cause> {
        match text {
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            other => {
                let supported = ["Foreground", "Background", "Orphan"];
                Err(unsupported("propagationPolicy", other, &supported))
            }
        }
    }
}

/// The parameters of a request, as far as this API has any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: String,
    pub(crate) resource_version: String,
    pub(crate) version_match: Option<VersionMatch>,
    pub(crate) watch: bool,
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) field_validation: FieldValidation,
    pub(crate) field_manager: String,
    pub(crate) force: Option<bool>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) include_object: String,
    /// Values no verb that knows the option takes; see [`super::check_options`].
    pub(crate) unsupported: Vec<Cause>,
    /// Parameters that no verb has.
    pub(crate) unknown: Vec<String>,
}

impl Query {
    /// Reads a query string.
    pub(crate) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut query = Self::default();
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let bad = || ApiError::bad_request(format!("malformed query parameter {pair:?}"));
            let value = percent_decode(&value.replace('+', " ")).ok_or_else(bad)?;
            query.set(&percent_decode(key).ok_or_else(bad)?, value)?;
        }
        Ok(query)
    }

    fn set(&mut self, key: &str, value: String) -> Result<(), ApiError> {
        let invalid =
            |value: &str| ApiError::bad_request(format!("invalid value {value:?} of parameter {key}"));
        match key {
            "labelSelector" => self.label_selector = value,
            "fieldSelector" => self.field_selector = value,
            "limit" => {
                let limit: i64 = value.parse().map_err(|_| invalid(&value))?;
                self.limit = usize::try_from(limit).ok().filter(|l| *l > 0);
            }
            "continue" => self.continue_token = value,
            "resourceVersion" => self.resource_version = value,
            "resourceVersionMatch" => {
                self.version_match = match value.as_str() {
                    "" => None,
                    "Exact" => Some(VersionMatch::Exact),
                    "NotOlderThan" => Some(VersionMatch::NotOlderThan),
                    _ => Some(VersionMatch::Unknown),
                }
            }
            "watch" => self.watch = flag(&value),
            "allowWatchBookmarks" => self.bookmarks = flag(&value),
            "sendInitialEvents" => self.send_initial_events = Some(flag(&value)),
            "timeoutSeconds" => self.timeout_seconds = Some(value.parse().map_err(|_| invalid(&value))?),
            "dryRun" => match value.as_str() {
                "" => {}
                "All" => self.dry_run = true,
                _ => self.unsupported.push(unsupported("dryRun", &value, &["All"])),
            },
            "fieldValidation" => {
                self.field_validation = match value.as_str() {
                    "Ignore" => FieldValidation::Ignore,
                    "" | "Warn" => FieldValidation::Warn,
                    "Strict" => FieldValidation::Strict,
                    _ => {
                        let supported = ["Ignore", "Warn", "Strict"];
                        self.unsupported
                            .push(unsupported("fieldValidation", &value, &supported));
                        FieldValidation::default()
                    }
                }
            }
            "fieldManager" => self.field_manager = value,
            "force" => self.force = Some(flag(&value)),
            "propagationPolicy" => match Propagation::parse(&value) {
                Ok(policy) => self.propagation = Some(policy),
                Err(cause) => self.unsupported.push(cause),
            },
            "orphanDependents" => self.orphan_dependents = Some(flag(&value)),
            "gracePeriodSeconds" => {
                self.grace_period_seconds = Some(value.parse().map_err(|_| invalid(&value))?)
            }
            "includeObject" => self.include_object = value,
            // These are read elsewhere, or change how an answer is written.
            "timeout" | "pretty" => {}
            // How Pods are looked into.
            "container" | "command" | "stdin" | "stdout" | "stderr" | "tty" | "follow" | "previous"
            | "tailLines" | "sinceSeconds" | "sinceTime" | "timestamps" | "limitBytes" | "ports" | "path" => {
            }
            _ => self.unknown.push(key.to_owned()),
        }
        Ok(())
    }
}

/// An option has a value that is none of the supported ones.
pub(crate) fn unsupported(field: &str, value: &str, supported: &[&str]) -> Cause {
    let message = format!("Unsupported value: {value:?}: supported values: {supported:?}");
    Cause::not_supported(field, message)
}

/// A Go boolean parameter: present and not false.
fn flag(value: &str) -> bool {
    !matches!(value, "0" | "f" | "F" | "false" | "FALSE" | "False")
}

/// A duration as Go writes it: `5s`, `1m30s`, `1.5h`; `None` if it is none, or negative.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let length = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(length);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(total).ok()
}

/// Undoes percent encoding; `None` if it is malformed or not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'%' {
            out.push(b);
            continue;
        }
        let digit = |b: Option<u8>| char::from(b?).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parameters() {
        let q =
            Query::parse("labelSelector=a%3D1%2Cb&watch=1&limit=5&dryRun=All&propagationPolicy=Orphan&x=y")
                .unwrap();
        assert_eq!(
            (q.label_selector.as_str(), q.watch, q.limit, q.dry_run),
            ("a=1,b", true, Some(5), true)
        );
        assert_eq!(q.propagation, Some(Propagation::Orphan));
        assert!(!Query::parse("watch=false").unwrap().watch);
        for bad in ["limit=x", "a=%f", "timeoutSeconds=-1"] {
            assert!(Query::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("5s", Some(5_000)),
            ("1m30s", Some(90_000)),
            ("1.5h", Some(5_400_000)),
            ("250ms", Some(250)),
            ("0", Some(0)),
            ("", None),
            ("5", None),
            ("-1s", None),
            ("s", None),
            ("1e99h", None),
        ] {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_answered(text in "\\PC{0,60}") {
            let _ = Query::parse(&text);
            let _ = parse_duration(&text);
        }
    }
}
