//! `metadata`: what the server fills in, and what it checks.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    clock::{Dice, rfc3339},
    error::Cause,
    kinds::Resource,
    names,
    object::{self, meta, set_meta},
    schema::{join_index, join_key},
};

/// Finalizers without a domain that objects of built-in kinds may have.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
/// Annotations may total so many bytes.
const MAX_ANNOTATIONS: usize = 256 << 10;
/// The part of a generated name that is not random.
const MAX_GENERATED_PREFIX: usize = 58;

/// Fills in name, uid and time of a new object, and drops what only the server may set.
pub(crate) fn stamp(value: &mut Value, dice: &Dice, now: Timestamp) {
    let prefix = meta(value, "generateName").to_owned();
    if meta(value, "name").is_empty() && !prefix.is_empty() {
        let end = (0..=prefix.len().min(MAX_GENERATED_PREFIX))
            .rev()
            .find(|i| prefix.is_char_boundary(*i))
            .unwrap_or(0);
        let name = format!("{}{}", prefix.get(..end).unwrap_or_default(), dice.suffix());
        set_meta(value, "name", Some(name.into()));
    }
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "resourceVersion",
        "managedFields",
    ] {
        set_meta(value, key, None);
    }
    set_meta(value, "uid", Some(dice.uid().into()));
    set_meta(value, "creationTimestamp", Some(rfc3339(now).into()));
}

/// The rule a kind's names follow.
fn name_rule(resource: &Resource) -> fn(&str) -> Vec<String> {
    match (&*resource.group, &*resource.kind) {
        ("", "Namespace") => names::dns_label,
        ("", "Service") => names::dns_1035_label,
        ("rbac.authorization.k8s.io" | "certificates.k8s.io", _) => names::path_segment,
        _ => names::dns_subdomain,
    }
}

/// Everything that is wrong with `metadata` of an object.
pub(crate) fn check_metadata(resource: &Resource, value: &Value) -> Vec<Cause> {
    let mut out = vec![];
    let prefix = meta(value, "generateName");
    if !prefix.is_empty() {
        // A dash at the end is fine: something follows it.
        let whole = match prefix.strip_suffix('-') {
            Some(rest) if !rest.is_empty() => format!("{rest}a"),
            _ => prefix.to_owned(),
        };
        out.extend(name_rule(resource)(&whole).into_iter().map(|why| {
            Cause::invalid(
                "metadata.generateName",
                format!("Invalid value: {prefix:?}: {why}"),
            )
        }));
    }
    let name = meta(value, "name");
    if name.is_empty() {
        out.push(Cause::required(
            "metadata.name",
            "Required value: name or generateName is required",
        ));
    } else {
        let wrong = name_rule(resource)(name);
        out.extend(
            wrong
                .into_iter()
                .map(|why| Cause::invalid("metadata.name", format!("Invalid value: {name:?}: {why}"))),
        );
    }
    let entries = |key: &str| {
        object::at(value, &["metadata", key])
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
    };
    for (key, v) in entries("labels") {
        let text = v.as_str().unwrap_or_default();
        let wrong = names::qualified_name(key)
            .into_iter()
            .map(|why| format!("Invalid value: {key:?}: {why}"));
        let wrong = wrong.chain(
            names::label_value(text)
                .into_iter()
                .map(|why| format!("Invalid value: {text:?}: {why}")),
        );
        out.extend(wrong.map(|why| Cause::invalid("metadata.labels", why)));
    }
    let mut size = 0;
    for (key, v) in entries("annotations") {
        size += key.len() + v.as_str().unwrap_or_default().len();
        let wrong = names::qualified_name(&key.to_lowercase());
        out.extend(
            wrong
                .into_iter()
                .map(|why| Cause::invalid("metadata.annotations", format!("Invalid value: {key:?}: {why}"))),
        );
    }
    if size > MAX_ANNOTATIONS {
        out.push(Cause::too_long(
            "metadata.annotations",
            format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes"),
        ));
    }
    check_owners(value, &mut out);
    check_finalizers(resource, value, &mut out);
    out
}

fn check_finalizers(resource: &Resource, value: &Value, out: &mut Vec<Cause>) {
    let finalizers = object::finalizers(value);
    let mut refuse = |path: &str, text: &str, why: &str| {
        out.push(Cause::invalid(path, format!("Invalid value: {text:?}: {why}")))
    };
    for finalizer in &finalizers {
        for why in names::qualified_name(finalizer) {
            refuse("metadata.finalizers", finalizer, &why);
        }
    }
    let both = ["orphan", "foregroundDeletion"];
    if both.iter().all(|f| finalizers.contains(f)) {
        refuse(
            "metadata.finalizers",
            &finalizers.join(", "),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
    // These groups are validated by the rules of custom resources.
    let lenient = matches!(
        &*resource.group,
        "admissionregistration.k8s.io"
            | "apiextensions.k8s.io"
            | "apiregistration.k8s.io"
            | "coordination.k8s.io"
    );
    if resource.custom.is_some() || lenient {
        return;
    }
    for (i, finalizer) in finalizers.iter().enumerate() {
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            refuse(&join_index("metadata.finalizers", i), finalizer, why);
        }
    }
}

fn check_owners(value: &Value, out: &mut Vec<Cause>) {
    let mut controllers = 0;
    let list = object::at(value, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    for owner in list.into_iter().flatten() {
        // Kubernetes does not say which one it is.
        let path = "metadata.ownerReferences";
        let text = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        for key in ["apiVersion", "kind", "name", "uid"] {
            if text(key).is_empty() {
                out.push(Cause::invalid(
                    format!("{path}.{key}"),
                    format!("Invalid value: \"\": {key} must not be empty"),
                ));
            }
        }
        if text("apiVersion").matches('/').count() > 1 {
            let why = format!("Invalid value: {:?}: version must be valid", text("apiVersion"));
            out.push(Cause::invalid(format!("{path}.apiVersion"), why));
        }
        if (text("apiVersion"), text("kind")) == ("v1", "Event") {
            out.push(Cause::invalid(
                path,
                "Invalid value: /v1, Kind=Event is disallowed from being an owner",
            ));
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        out.push(Cause::invalid(
            "metadata.ownerReferences",
            "Only one reference can have Controller set to true",
        ));
    }
}

/// Carries over what an update may not change, and returns what it tried to change all the same.
pub(crate) fn check_metadata_update(new: &mut Value, old: &Value) -> Vec<Cause> {
    let mut out = vec![];
    let old_entry = |key: &str| object::at(old, &["metadata", key]).cloned();
    let deleting = object::is_deleting(old);
    let (grace, had) = (
        "deletionGracePeriodSeconds",
        old_entry("deletionGracePeriodSeconds"),
    );
    let asked = object::at(new, &["metadata", grace])
        .filter(|asked| !asked.is_null() && Some(*asked) != had.as_ref());
    if let Some(asked) = asked {
        out.push(Cause::invalid_value(
            format!("metadata.{grace}"),
            Some(asked),
            "field is immutable",
        ));
    }
    for key in ["uid", "deletionTimestamp"] {
        let have = meta(new, key);
        // Only a delete marks an object; the mark of one being deleted stays whatever is sent.
        let fixed = key == "uid" || !deleting;
        if fixed && !have.is_empty() && have != meta(old, key) {
            out.push(Cause::invalid(
                format!("metadata.{key}"),
                format!("Invalid value: {have:?}: field is immutable"),
            ));
        }
        set_meta(new, key, old_entry(key));
    }
    for key in ["creationTimestamp", grace] {
        set_meta(new, key, old_entry(key));
    }
    if deleting {
        let before = object::finalizers(old);
        let added: Vec<&str> = object::finalizers(new)
            .into_iter()
            .filter(|f| !before.contains(f))
            .collect();
        if !added.is_empty() {
            let why = format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            out.push(Cause::forbidden("metadata.finalizers", why));
        }
    }
    out
}

/// Keys of a map of data that are no config keys.
pub(super) fn check_config_keys(value: &Value, field: &str, out: &mut Vec<Cause>) {
    for key in value
        .get(field)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(k, _)| k)
    {
        for why in names::config_key(key) {
            out.push(Cause::invalid(
                join_key(field, key),
                format!("Invalid value: {key:?}: {why}"),
            ));
        }
    }
}
