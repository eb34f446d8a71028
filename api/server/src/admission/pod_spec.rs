//! Checks of pods and pod templates (`ValidatePodSpec` of Kubernetes): what a manifest is most likely to trip over.

use std::collections::BTreeSet;

use serde_json::Value;

use super::container::check_container;
use crate::{
    error::Cause,
    names::dns_label,
    object::at,
    schema::{join, join_index},
};

/// The field of a volume that is no source.
const NAME: &str = "name";

/// Whose pods they are, as far as it limits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// A Pod, which may end.
    Pod,
    /// Deployments and the like keep their pods running.
    Service,
    /// Jobs let them end.
    Job,
}

/// Checks a pod template's spec, or a Pod's, which is at `path`.
pub(super) fn check_pod_spec(spec: Option<&Value>, path: &str, of: Of, out: &mut Vec<Cause>) {
    let spec = spec.unwrap_or(&Value::Null);
    let volumes = volumes(spec, path, out);
    let list = join(path, "containers");
    if items(spec, "containers").next().is_none() {
        out.push(Cause::required(&list, "Required value"));
    }
    let mut seen = BTreeSet::new();
    for key in ["initContainers", "containers"] {
        let list = join(path, key);
        for (i, container) in items(spec, key).enumerate() {
            let at = join_index(&list, i);
            check_name(container, &at, &mut seen, out);
            check_container(container, &at, &volumes, out);
        }
    }
    let supported: &[&str] = match of {
        Of::Pod => &["Always", "OnFailure", "Never"],
        Of::Service => &["Always"],
        Of::Job => &["OnFailure", "Never"],
    };
    if of == Of::Job && text(spec, "restartPolicy") == "Always" {
        // That is the default, so nothing was said.
        let why = "Required value: valid values: \"OnFailure\", \"Never\"";
        out.push(Cause::required(join(path, "restartPolicy"), why));
    } else {
        one_of(spec, "restartPolicy", path, supported, out);
    }
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec, "dnsPolicy", path, &policies, out);
    not_negative(spec, "terminationGracePeriodSeconds", path, out);
    let deadline = spec.get("activeDeadlineSeconds");
    if deadline.and_then(Value::as_i64).is_some_and(|n| n < 1) {
        let why = "must be between 1 and 2147483647, inclusive";
        let field = join(path, "activeDeadlineSeconds");
        out.push(Cause::invalid_value(field, deadline, why));
    }
}

/// The names of the volumes, which are checked on the way.
fn volumes<'a>(spec: &'a Value, path: &str, out: &mut Vec<Cause>) -> BTreeSet<&'a str> {
    let list = join(path, "volumes");
    let mut seen = BTreeSet::new();
    for (i, volume) in items(spec, "volumes").enumerate() {
        let at = join_index(&list, i);
        check_name(volume, &at, &mut seen, out);
        let sources: Vec<(&str, &Value)> = volume
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != NAME)
            .map(|(key, source)| (key.as_str(), source))
            .collect();
        match &sources[..] {
            [] => out.push(Cause::required(&at, "must specify a volume type")),
            [(key, source)] => {
                let named = match *key {
                    "configMap" => Some("name"),
                    "secret" => Some("secretName"),
                    "persistentVolumeClaim" => Some("claimName"),
                    "hostPath" => Some("path"),
                    _ => None,
                };
                if let Some(field) = named
                    && text(source, field).is_empty()
                {
                    out.push(Cause::required(join(&join(&at, key), field), "Required value"));
                }
            }
            [_, more @ ..] => {
                for (key, _) in more {
                    let why = "may not specify more than 1 volume type";
                    out.push(Cause::forbidden(join(&at, key), why));
                }
            }
        }
    }
    seen
}

/// A container or a volume has a name that is a DNS label and occurs once.
fn check_name<'a>(item: &'a Value, at: &str, seen: &mut BTreeSet<&'a str>, out: &mut Vec<Cause>) {
    let (field, name) = (join(at, NAME), text(item, NAME));
    if name.is_empty() {
        out.push(Cause::required(field, "Required value"));
    } else if let Some(why) = dns_label(name).first() {
        out.push(Cause::invalid_value(field, item.get(NAME), why));
    } else if !seen.insert(name) {
        out.push(Cause::duplicate(field, format!("Duplicate value: {name:?}")));
    }
}

/// The objects of a list; nothing where there is none.
pub(super) fn items<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A string field; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A field that is set is one of these.
pub(super) fn one_of(value: &Value, key: &str, path: &str, supported: &[&str], out: &mut Vec<Cause>) {
    let Some(found) = at(value, &[key]).and_then(Value::as_str) else {
        return;
    };
    if !supported.contains(&found) {
        let all: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
        let why = format!(
            "Unsupported value: {found:?}: supported values: {}",
            all.join(", ")
        );
        out.push(Cause::not_supported(join(path, key), why));
    }
}

/// A number that is set is not below nothing.
pub(super) fn not_negative(value: &Value, key: &str, path: &str, out: &mut Vec<Cause>) {
    let found = value.get(key);
    if found.and_then(Value::as_i64).is_some_and(|n| n < 0) {
        let why = "must be greater than or equal to 0";
        out.push(Cause::invalid_value(join(path, key), found, why));
    }
}
