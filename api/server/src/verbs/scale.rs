//! The `scale` subresource: `autoscaling/v1` Scale over whatever counts replicas.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Call, Intent,
    apply::apply_scale,
    decode_stored,
    patch::patcher,
    update::{Part, Refusal, TRIES, check_name, check_precondition, store_update},
};
use crate::{
    error::{ApiError, Cause},
    kinds::{Resource, ScalePaths},
    managed::Writer,
    object::{at, meta},
    request::{APPLY, Format, parse_object},
    server::Core,
    service::Reply,
    store::Record,
    table::scale_table,
};

fn keys(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// The Scale of an object.
fn scale_of(paths: &ScalePaths, value: &Value) -> Value {
    let count = |path: &[String]| at(value, &keys(path)).and_then(Value::as_i64).unwrap_or(0);
    let mut meta = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(v) = at(value, &["metadata", key]) {
            crate::object::set(&mut meta, key, Some(v.clone()));
        }
    }
    let mut status = json!({"replicas": count(&paths.status)});
    let selector = match &paths.selector {
        Some(path) => at(value, &keys(path)).and_then(Value::as_str).map(str::to_owned),
        None => Some(selector_text(at(value, &["spec", "selector"]))),
    };
    if let Some(selector) = selector.filter(|s| !s.is_empty()) {
        crate::object::set(&mut status, "selector", Some(selector.into()));
    }
    // A desired count of zero is left out, an observed one is not: so the Go types say.
    let spec = match count(&paths.spec) {
        0 => json!({}),
        n => json!({"replicas": n}),
    };
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta, "spec": spec, "status": status})
}

/// A selector object as `labelSelector` text.
pub(crate) fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return String::new();
    };
    let is_map = !["matchLabels", "matchExpressions"]
        .iter()
        .any(|key| selector.get(key).is_some_and(|v| !v.is_string()));
    let labels = if is_map {
        Some(selector)
    } else {
        selector.get("matchLabels")
    };
    let pairs = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.as_str(), format!("{k}={}", v.as_str()?))));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let expressions = expressions.into_iter().flatten().filter_map(expression_text);
    // Kubernetes prints the requirements in the order of their keys.
    let mut all: Vec<(&str, String)> = pairs.chain(expressions).collect();
    all.sort_by(|a, b| a.0.cmp(b.0));
    let texts: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
    texts.join(",")
}

/// Key and text of one entry of `matchExpressions`.
fn expression_text(expression: &Value) -> Option<(&str, String)> {
    let key = expression.get("key")?.as_str()?;
    let values = expression.get("values").and_then(Value::as_array);
    let mut values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
    values.sort_unstable();
    let values = values.join(",");
    let text = match expression.get("operator")?.as_str()? {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => return None,
    };
    Some((key, text))
}

fn read(core: &Core, call: &Call) -> Result<(Record, Value), ApiError> {
    let record = core
        .store
        .get(&call.key())
        .ok_or_else(|| call.resource.not_found(call.name()))?;
    let value = decode_stored(&call.resource, &record.bytes);
    Ok((record, value))
}

/// A Scale in the shape asked for.
fn reply(core: &Core, call: &Call, scale: Value) -> Reply {
    match call.output.format {
        Format::Table => Reply::ok(scale_table(&scale, &call.query.include_object, (core.clock)())),
        Format::Object | Format::Discovery | Format::Metadata => Reply::ok(scale),
    }
}

/// Answers with the Scale of an object.
pub(super) fn get(core: &Core, call: &Call, paths: &ScalePaths) -> Result<Reply, ApiError> {
    let (_, value) = read(core, call)?;
    Ok(reply(core, call, scale_of(paths, &value)))
}

/// Replaces the Scale of an object.
pub(super) fn update(core: &Core, call: &Call, paths: &ScalePaths, body: &Bytes) -> Result<Reply, ApiError> {
    let sent = parse_object(&call.media, body)?.value;
    check_scale(&sent)?;
    check_name(call, &sent)?;
    write(core, call, paths, |_| Ok(sent.clone()))
}

/// A body that says what it is must say it is a Scale, and count in numbers.
pub(super) fn check_scale(sent: &Value) -> Result<(), ApiError> {
    for (key, want) in [("apiVersion", "autoscaling/v1"), ("kind", "Scale")] {
        if let Some(have) = sent.get(key).and_then(Value::as_str).filter(|h| *h != want) {
            return Err(ApiError::bad_request(format!(
                "{have} cannot be handled as a Scale: the {key} of this path is {want}"
            )));
        }
    }
    match at(sent, &["spec", "replicas"]) {
        Some(n) if !n.is_null() && n.as_i64().is_none_or(|n| i32::try_from(n).is_err()) => {
            Err(ApiError::bad_request(
                "Scale cannot be handled: cannot decode spec.replicas, which is a whole number of 32 bits",
            ))
        }
        _ => Ok(()),
    }
}

/// Patches the Scale of an object. A strategic merge of a Scale is a plain merge: it has no lists.
pub(super) fn patch(core: &Core, call: &Call, paths: &ScalePaths, body: &Bytes) -> Result<Reply, ApiError> {
    let media = match call.media.as_str() {
        APPLY => {
            let stored = apply_scale(core, call, paths, body)?;
            return Ok(reply(core, call, scale_of(paths, &stored)));
        }
        "application/strategic-merge-patch+json" if call.resource.custom.is_none() => {
            "application/merge-patch+json"
        }
        other => other,
    };
    let patch = patcher(&call.resource, media, body)?;
    write(core, call, paths, |mut scale| {
        patch.apply(&mut scale).map(|()| scale)
    })
}

fn write(
    core: &Core,
    call: &Call,
    paths: &ScalePaths,
    change: impl Fn(Value) -> Result<Value, ApiError>,
) -> Result<Reply, ApiError> {
    let intent = Intent {
        writer: Writer::Update {
            manager: call.manager.clone(),
            subresource: "scale",
        },
        ..call.intent(Part::Main)
    };
    let mut tries = 0;
    loop {
        tries += 1;
        let (record, old) = read(core, call)?;
        let scale = change(scale_of(paths, &old))?;
        let replicas = match at(&scale, &["spec", "replicas"]) {
            None | Some(Value::Null) => 0,
            Some(n) => n
                .as_i64()
                .filter(|n| (0..=i64::from(i32::MAX)).contains(n))
                .ok_or_else(|| invalid(&call.resource, call.name()))?,
        };
        check_precondition(&call.resource, &with_meta(&old, &scale), &old, &record)?;
        let mut value = old.clone();
        set_at(&mut value, &paths.spec, replicas.into());
        match store_update(core, &call.resource, &call.key(), &record, old, value, &intent) {
            Err(Refusal::Raced) if tries < TRIES => {}
            Err(Refusal::Raced) => return Err(call.resource.conflict(call.name())),
            Err(Refusal::Error(error)) => return Err(error),
            Ok(stored) => return Ok(reply(core, call, scale_of(paths, &stored.value))),
        }
    }
}

/// The object with what the Scale says about version and uid; without a version it is that of the object.
fn with_meta(value: &Value, scale: &Value) -> Value {
    let mut out = json!({"metadata": {"name": meta(value, "name")}});
    let version = Some(meta(scale, "resourceVersion"))
        .filter(|v| !v.is_empty())
        .unwrap_or(meta(value, "resourceVersion"));
    crate::object::set_meta(&mut out, "resourceVersion", Some(version.into()));
    crate::object::set_meta(&mut out, "uid", Some(meta(scale, "uid").into()));
    out
}

fn invalid(resource: &Resource, name: &str) -> ApiError {
    let mut error = resource.invalid(
        name,
        vec![Cause::invalid(
            "spec.replicas",
            "must be a number from 0 to 2147483647",
        )],
    );
    error.details.kind = "Scale".to_owned();
    error.details.group = "autoscaling".to_owned();
    error
}

/// Sets the value at a path of keys, making the objects on the way.
pub(super) fn set_at(value: &mut Value, path: &[String], to: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut now = value.as_object_mut();
    for key in parents {
        now = now.and_then(|map| crate::object::child(map, key));
    }
    if let Some(map) = now {
        map.insert(last.clone(), to);
    }
}
