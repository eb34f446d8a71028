//! Checks of one container (`validateContainerCommon` of Kubernetes).

use std::{cmp::Ordering, collections::BTreeSet};

use roundhouse_patch::quantity;
use serde_json::Value;

use super::pod_spec::{items, not_negative, one_of, text};
use crate::{
    error::Cause,
    schema::{join, join_index, join_key},
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PORT: &str = "must be between 1 and 65535, inclusive";

/// Checks all but the name of a container at `at`, whose pod has these volumes.
pub(super) fn check_container(container: &Value, at: &str, volumes: &BTreeSet<&str>, out: &mut Vec<Cause>) {
    if text(container, "image").trim().is_empty() {
        out.push(Cause::required(join(at, "image"), "Required value"));
    }
    one_of(
        container,
        "imagePullPolicy",
        at,
        &["Always", "IfNotPresent", "Never"],
        out,
    );
    one_of(
        container,
        "terminationMessagePolicy",
        at,
        &["FallbackToLogsOnError", "File"],
        out,
    );
    ports(container, at, out);
    env(container, at, out);
    mounts(container, at, volumes, out);
    if let Some(resources) = container.get("resources") {
        amounts(resources, &join(at, "resources"), out);
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get(key) {
            check_probe(probe, key, &join(at, key), out);
        }
    }
}

fn ports(container: &Value, at: &str, out: &mut Vec<Cause>) {
    let list = join(at, "ports");
    let mut names = BTreeSet::new();
    for (i, port) in items(container, "ports").enumerate() {
        let at = join_index(&list, i);
        let name = text(port, "name");
        if !name.is_empty() {
            if let Some(why) = port_name(name) {
                out.push(Cause::invalid_value(join(&at, "name"), port.get("name"), why));
            } else if !names.insert(name) {
                let why = format!("Duplicate value: {name:?}");
                out.push(Cause::duplicate(join(&at, "name"), why));
            }
        }
        match port.get("containerPort").and_then(Value::as_i64) {
            None | Some(0) => out.push(Cause::required(join(&at, "containerPort"), "Required value")),
            Some(number) => in_range(number, &join(&at, "containerPort"), out),
        }
        if let Some(number) = port.get("hostPort").and_then(Value::as_i64).filter(|n| *n != 0) {
            in_range(number, &join(&at, "hostPort"), out);
        }
        one_of(port, "protocol", &at, &PROTOCOLS, out);
    }
}

fn in_range(port: i64, field: &str, out: &mut Vec<Cause>) {
    if !(1..=65_535).contains(&port) {
        out.push(Cause::invalid_value(field, Some(&port.into()), PORT));
    }
}

/// What is wrong with the name of a port (RFC 6335, section 5.1).
pub(super) fn port_name(name: &str) -> Option<&'static str> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.len() > 15 {
        Some("must be no more than 15 characters")
    } else if !name.chars().all(legal) {
        Some("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    } else if !name.contains(|c: char| c.is_ascii_lowercase()) {
        Some("must contain at least one letter (a-z)")
    } else if name.contains("--") {
        Some("must not contain consecutive hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Some("must not begin or end with a hyphen")
    } else {
        None
    }
}

fn env(container: &Value, at: &str, out: &mut Vec<Cause>) {
    let list = join(at, "env");
    for (i, variable) in items(container, "env").enumerate() {
        let at = join_index(&list, i);
        let name = text(variable, "name");
        // Since 1.34 (RelaxedEnvironmentVariableValidation) any printable ASCII character but one.
        if name.is_empty() {
            out.push(Cause::required(join(&at, "name"), "Required value"));
        } else if !name.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            out.push(Cause::invalid_value(join(&at, "name"), variable.get("name"), why));
        }
        let Some(source) = variable.get("valueFrom") else {
            continue;
        };
        let at = join(&at, "valueFrom");
        let given = source.as_object().map_or(0, serde_json::Map::len);
        if !text(variable, "value").is_empty() {
            let why = "may not be specified when `value` is not empty";
            out.push(Cause::invalid_value(&at, Some(&"".into()), why));
        }
        if given == 0 {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            out.push(Cause::invalid_value(&at, Some(&"".into()), why));
        } else if given > 1 {
            let why = "may not have more than one field specified at a time";
            out.push(Cause::invalid_value(&at, Some(&"".into()), why));
        }
        for key in ["configMapKeyRef", "secretKeyRef"] {
            if let Some(reference) = source.get(key) {
                for field in ["name", "key"] {
                    if text(reference, field).is_empty() {
                        out.push(Cause::required(join(&join(&at, key), field), "Required value"));
                    }
                }
            }
        }
    }
    let list = join(at, "envFrom");
    for (i, source) in items(container, "envFrom").enumerate() {
        let at = join_index(&list, i);
        let given: Vec<&str> = ["configMapRef", "secretRef"]
            .into_iter()
            .filter(|key| source.get(key).is_some())
            .collect();
        match &given[..] {
            [] => {
                let why = "must specify one of: `configMapRef` or `secretRef`";
                out.push(Cause::invalid_value(&at, Some(&"".into()), why));
            }
            [key] => {
                if text(&source[*key], "name").is_empty() {
                    out.push(Cause::required(join(&join(&at, key), "name"), "Required value"));
                }
            }
            _ => {
                let why = "may not have more than one field specified at a time";
                out.push(Cause::invalid_value(&at, Some(&"".into()), why));
            }
        }
    }
}

fn mounts(container: &Value, at: &str, volumes: &BTreeSet<&str>, out: &mut Vec<Cause>) {
    let list = join(at, "volumeMounts");
    let mut paths = BTreeSet::new();
    for (i, mount) in items(container, "volumeMounts").enumerate() {
        let at = join_index(&list, i);
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            out.push(Cause::required(join(&at, "name"), "Required value"));
        } else if !volumes.contains(name) {
            out.push(Cause::not_found(join(&at, "name"), name));
        }
        if path.is_empty() {
            out.push(Cause::required(join(&at, "mountPath"), "Required value"));
        } else if !paths.insert(path) {
            out.push(Cause::invalid_value(
                join(&at, "mountPath"),
                mount.get("mountPath"),
                "must be unique",
            ));
        }
        for key in ["subPath", "subPathExpr"] {
            let inner = text(mount, key);
            if inner.starts_with('/') {
                out.push(Cause::invalid_value(
                    join(&at, key),
                    mount.get(key),
                    "must be a relative path",
                ));
            } else if inner.split('/').any(|part| part == "..") {
                out.push(Cause::invalid_value(
                    join(&at, key),
                    mount.get(key),
                    "must not contain '..'",
                ));
            }
        }
    }
}

/// Requests and limits are not negative, and no request is above its limit.
fn amounts(resources: &Value, at: &str, out: &mut Vec<Cause>) {
    let of = |part: &str| {
        resources
            .get(part)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    for part in ["limits", "requests"] {
        for (name, amount) in of(part) {
            let below = amount.as_str().and_then(|amount| quantity::compare(amount, "0"));
            if below == Some(Ordering::Less) {
                let why = "must be greater than or equal to 0";
                out.push(Cause::invalid_value(
                    join_key(&join(at, part), name),
                    Some(amount),
                    why,
                ));
            }
        }
    }
    for (name, request) in of("requests") {
        let limit = resources.get("limits").and_then(|limits| limits.get(name));
        let both = request.as_str().zip(limit.and_then(Value::as_str));
        let Some((asked, limit)) = both else { continue };
        if quantity::compare(asked, limit) == Some(Ordering::Greater) {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            out.push(Cause::invalid_value(join(at, "requests"), Some(request), &why));
        }
    }
}

fn check_probe(probe: &Value, key: &str, at: &str, out: &mut Vec<Cause>) {
    let handlers: Vec<&str> = ["exec", "httpGet", "tcpSocket", "grpc"]
        .into_iter()
        .filter(|handler| probe.get(handler).is_some())
        .collect();
    match &handlers[..] {
        [] => out.push(Cause::required(at, "must specify a handler type")),
        [_] => {}
        [_, more @ ..] => {
            for handler in more {
                let why = "may not specify more than 1 handler type";
                out.push(Cause::forbidden(join(at, handler), why));
            }
        }
    }
    if let Some(exec) = probe.get("exec")
        && items(exec, "command").next().is_none()
    {
        out.push(Cause::required(
            join(&join(at, "exec"), "command"),
            "Required value",
        ));
    }
    for handler in ["httpGet", "tcpSocket", "grpc"] {
        let Some(port) = probe.get(handler).map(|handler| handler.get("port")) else {
            continue;
        };
        let field = join(&join(at, handler), "port");
        match port.unwrap_or(&Value::Null) {
            Value::String(name) if handler != "grpc" => {
                if let Some(why) = port_name(name) {
                    out.push(Cause::invalid_value(field, port, why));
                }
            }
            number => in_range(number.as_i64().unwrap_or(0), &field, out),
        }
    }
    if let Some(get) = probe.get("httpGet") {
        one_of(get, "scheme", &join(at, "httpGet"), &["HTTP", "HTTPS"], out);
    }
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        not_negative(probe, field, at, out);
    }
    let threshold = probe.get("successThreshold");
    if key != "readinessProbe" && threshold.and_then(Value::as_i64).is_some_and(|n| n > 1) {
        out.push(Cause::invalid_value(
            join(at, "successThreshold"),
            threshold,
            "must be 1",
        ));
    }
}
