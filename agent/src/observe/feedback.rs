//! Feedback: values of live objects that a bundle asks for, by `feedbackRules` (the shape of OCM's work agent; CEL is
//! ours). A value that is not there is left out, which is no error; one that cannot be read leaves the others alone.

use super::expression::{Expression, Subject};
use crate::object::ObjectKey;
use roundhouse_api::bundle::{self, FeedbackType, FeedbackValue, FieldValue, FieldValueType};
use roundhouse_patch::JsonPath;
use serde_json::Value;

/// Lists and objects are reported as JSON of at most this many bytes, and so are texts.
const MAX_RAW: usize = 1024;
/// Longest path, in bytes.
const MAX_PATH: usize = 1024;
/// Longest name of a value, in bytes.
const MAX_NAME: usize = 128;
/// Values of one object.
const MAX_VALUES: usize = 64;
/// Faults that are spelled out.
const MAX_FAULTS: usize = 3;

/// Whether all values could be read; otherwise what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Synced(pub(crate) Result<(), String>);

/// A compiled rule.
#[derive(Debug)]
pub(super) enum FeedbackRule {
    WellKnown,
    /// Each by name; those that do not compile as what is wrong with them.
    Values(Vec<(String, Source)>),
}

/// Where a value comes from.
#[derive(Debug)]
pub(super) enum Source {
    Path { path: JsonPath, version: String },
    Expression(Expression),
    Invalid(String),
}

impl FeedbackRule {
    /// Compiles a rule; `left` is how many expressions there may still be.
    pub(super) fn compile(rule: &bundle::FeedbackRule, left: &mut usize) -> Self {
        let source = |name: &str, source: Result<Source, String>| {
            let checked = check_name(name).and(source);
            (name.to_owned(), checked.unwrap_or_else(Source::Invalid))
        };
        match rule.type_ {
            FeedbackType::WellKnownStatus => FeedbackRule::WellKnown,
            FeedbackType::JSONPaths => FeedbackRule::Values(
                rule.json_paths
                    .iter()
                    .map(|wanted| source(&wanted.name, path(wanted)))
                    .collect(),
            ),
            FeedbackType::CEL => {
                let mut expression = |text: &str| {
                    *left = left.checked_sub(1).ok_or_else(super::too_many)?;
                    let compiled =
                        Expression::compile(text, &["object"]).map_err(|error| error.to_string())?;
                    Ok(Source::Expression(compiled))
                };
                let wanted = rule.cel_expressions.iter();
                FeedbackRule::Values(
                    wanted
                        .map(|wanted| source(&wanted.name, expression(&wanted.expression)))
                        .collect(),
                )
            }
        }
    }

    pub(super) fn needs_expressions(&self) -> bool {
        match self {
            FeedbackRule::WellKnown => false,
            FeedbackRule::Values(values) => values
                .iter()
                .any(|(_, source)| matches!(source, Source::Expression(_))),
        }
    }
}

fn path(wanted: &bundle::FeedbackPath) -> Result<Source, String> {
    if wanted.path.len() > MAX_PATH {
        return Err(format!("the path has more than {MAX_PATH} bytes"));
    }
    let path = JsonPath::parse(&wanted.path).map_err(|error| error.to_string())?;
    Ok(Source::Path {
        path,
        version: wanted.version.clone(),
    })
}

fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        1..=MAX_NAME => Ok(()),
        _ => Err(format!("a name has 1 to {MAX_NAME} bytes")),
    }
}

/// The values of one object, in the order of the rules, and whether all could be read; `None` when there are no rules.
pub(super) fn collect(
    rules: &[FeedbackRule],
    key: &ObjectKey,
    version: &str,
    live: &Value,
    subject: Option<&Subject<'_>>,
) -> (Vec<FeedbackValue>, Option<Synced>) {
    if rules.is_empty() {
        return (Vec::new(), None);
    }
    let mut values = Vec::new();
    let mut faults = Vec::new();
    let mut take = |name: &str, read: Result<Option<Value>, String>| match read
        .and_then(|value| field(value.as_ref()))
    {
        Ok(None) => {}
        Ok(Some(_)) if values.len() >= MAX_VALUES => {
            faults.push(format!("{name}: more than {MAX_VALUES} values"))
        }
        Ok(Some(field_value)) => values.push(FeedbackValue {
            name: name.to_owned(),
            field_value,
        }),
        Err(fault) => faults.push(format!("{name:.40}: {fault}")),
    };
    for rule in rules {
        match rule {
            FeedbackRule::WellKnown => match well_known(key, live) {
                Some(values) => values.into_iter().for_each(|(name, value)| take(name, Ok(value))),
                None => take(
                    "WellKnownStatus",
                    Err(format!("nothing is known of a {}", key.kind)),
                ),
            },
            FeedbackRule::Values(wanted) => {
                for (name, source) in wanted {
                    take(name, source.read(key, version, live, subject));
                }
            }
        }
    }
    let synced = match faults.len() {
        0 => Ok(()),
        n => {
            let more = n.saturating_sub(MAX_FAULTS);
            faults.truncate(MAX_FAULTS);
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            Err(format!("{}{more}", faults.join("; ")))
        }
    };
    (values, Some(Synced(synced)))
}

impl Source {
    fn read(
        &self,
        key: &ObjectKey,
        version: &str,
        live: &Value,
        subject: Option<&Subject<'_>>,
    ) -> Result<Option<Value>, String> {
        match self {
            Source::Invalid(fault) => Err(fault.clone()),
            Source::Path { version: wanted, .. } if !wanted.is_empty() && wanted != version => Err(format!(
                "the object is of version {version}, the path is for {wanted}"
            )),
            Source::Path { path, .. } => {
                Ok(path.find(&seen(key, live)).first().map(|value| (*value).clone()))
            }
            Source::Expression(expression) => match subject {
                None => Ok(None),
                Some(subject) => subject
                    .json(expression)
                    .map(Some)
                    .map_err(|failure| failure.to_string()),
            },
        }
    }
}

/// What paths see: everything but what a Secret keeps. Whoever writes bundles need not be allowed to read Secrets.
fn seen<'a>(key: &ObjectKey, live: &'a Value) -> std::borrow::Cow<'a, Value> {
    if !key.is("", "Secret") {
        return std::borrow::Cow::Borrowed(live);
    }
    let mut open = live.clone();
    if let Some(object) = open.as_object_mut() {
        object.remove("data");
        object.remove("stringData");
        if let Some(annotations) = object
            .get_mut("metadata")
            .and_then(|metadata| metadata.get_mut("annotations"))
            && let Some(annotations) = annotations.as_object_mut()
        {
            annotations.retain(|key, _| !super::expression::hidden(None, &["metadata", "annotations", key]));
        }
    }
    std::borrow::Cow::Owned(open)
}

/// A value as OCM's type; `None` for null.
fn field(value: Option<&Value>) -> Result<Option<FieldValue>, String> {
    use FieldValueType::{Boolean, Integer, JsonRaw, String as Text};
    let of = |type_| FieldValue {
        type_,
        ..FieldValue::default()
    };
    Ok(Some(match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Bool(value)) => FieldValue {
            boolean: Some(*value),
            ..of(Boolean)
        },
        Some(Value::Number(number)) if number.as_i64().is_some() => FieldValue {
            integer: number.as_i64(),
            ..of(Integer)
        },
        Some(Value::String(text)) if text.len() > MAX_RAW => {
            return Err(format!("the text has {} bytes, more than {MAX_RAW}", text.len()));
        }
        Some(Value::String(text)) => FieldValue {
            string: Some(text.clone()),
            ..of(Text)
        },
        Some(other) => {
            let raw = other.to_string();
            if raw.len() > MAX_RAW {
                return Err(format!(
                    "the value has {} bytes as JSON, more than {MAX_RAW}",
                    raw.len()
                ));
            }
            FieldValue {
                json_raw: Some(raw),
                ..of(JsonRaw)
            }
        }
    }))
}

/// The well-known values of a kind by name (OCM's, with StatefulSets and the failure of Jobs added); `None` for a kind
/// of which nothing is known.
fn well_known(key: &ObjectKey, live: &Value) -> Option<Vec<(&'static str, Option<Value>)>> {
    let at = |pointer: &str| live.pointer(pointer).cloned();
    let condition = |type_: &str| Some(crate::object::condition(live, type_)?.get("status")?.clone());
    Some(match (key.group.as_str(), key.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet") => vec![
            ("ReadyReplicas", at("/status/readyReplicas")),
            ("Replicas", at("/status/replicas")),
            ("AvailableReplicas", at("/status/availableReplicas")),
        ],
        ("apps", "DaemonSet") => vec![
            ("NumberReady", at("/status/numberReady")),
            ("DesiredNumberScheduled", at("/status/desiredNumberScheduled")),
            ("NumberAvailable", at("/status/numberAvailable")),
        ],
        ("batch", "Job") => vec![
            ("JobComplete", condition("Complete")),
            ("JobSucceeded", at("/status/succeeded")),
            ("JobFailed", at("/status/failed")),
        ],
        ("", "Pod") => vec![
            ("PodReady", condition("Ready")),
            ("PodPhase", at("/status/phase")),
        ],
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
