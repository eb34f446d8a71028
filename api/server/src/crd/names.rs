//! What a definition must satisfy to be stored.

use roundhouse_patch::JsonPath;
use serde_json::Value;

use crate::{
    error::Cause,
    names,
    object::{at, text},
    schema::{Rules, check_structural, join, join_index, join_key},
};

/// Everything that is wrong with a definition.
pub(crate) fn check(definition: &Value) -> Vec<Cause> {
    let mut out = vec![];
    let field = |path: &[&str]| text(definition, path).unwrap_or_default();
    let (group, plural) = (field(&["spec", "group"]), field(&["spec", "names", "plural"]));
    let name = field(&["metadata", "name"]);
    if name != format!("{plural}.{group}") {
        out.push(Cause::invalid(
            "metadata.name",
            format!("must be spec.names.plural+\".\"+spec.group: {name:?}"),
        ));
    }
    if group.is_empty() || !group.contains('.') || !names::dns_subdomain(group).is_empty() {
        out.push(Cause::invalid(
            "spec.group",
            "should be a domain with at least one dot",
        ));
    }
    for key in ["plural", "singular"] {
        let value = field(&["spec", "names", key]);
        if (key == "plural" || !value.is_empty()) && !names::dns_1035_label(value).is_empty() {
            out.push(Cause::invalid(format!("spec.names.{key}"), "must be a DNS label"));
        }
    }
    let kind = field(&["spec", "names", "kind"]);
    if kind.is_empty() {
        out.push(Cause::required("spec.names.kind", "Required value"));
    } else if !names::dns_1035_label(&kind.to_lowercase()).is_empty() {
        out.push(Cause::invalid(
            "spec.names.kind",
            "may have mixed case, but should otherwise match a DNS label",
        ));
    }
    if kind == field(&["spec", "names", "listKind"]) && !kind.is_empty() {
        out.push(Cause::invalid(
            "spec.names.listKind",
            "kind and listKind may not be the same",
        ));
    }
    if !matches!(field(&["spec", "scope"]), "Namespaced" | "Cluster") {
        out.push(Cause::not_supported(
            "spec.scope",
            "Unsupported value: supported values: \"Cluster\", \"Namespaced\"",
        ));
    }
    for key in ["shortNames", "categories"] {
        let words = at(definition, &["spec", "names", key]).and_then(Value::as_array);
        for (i, word) in words.into_iter().flatten().enumerate() {
            if !names::dns_1035_label(word.as_str().unwrap_or_default()).is_empty() {
                let path = join_index(&format!("spec.names.{key}"), i);
                out.push(Cause::invalid_value(path, Some(word), "must be a DNS label"));
            }
        }
    }
    let is_communitys = [".k8s.io", ".kubernetes.io"]
        .iter()
        .any(|end| group.ends_with(end));
    if is_communitys && at(definition, &["metadata", "annotations", APPROVED]).is_none() {
        let why = "protected groups must have an approval annotation, see https://github.com/kubernetes/enhancements/pull/1111";
        out.push(Cause::required(join_key("metadata.annotations", APPROVED), why));
    }
    if at(definition, &["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true)) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        out.push(Cause::invalid("spec.preserveUnknownFields", why));
    }
    let strategy = field(&["spec", "conversion", "strategy"]);
    if !matches!(strategy, "" | "None" | "Webhook") {
        let why = format!("Unsupported value: {strategy:?}: supported values: \"None\", \"Webhook\"");
        out.push(Cause::not_supported("spec.conversion.strategy", why));
    }
    versions(definition, &mut out);
    stored_versions(definition, &mut out);
    out
}

/// A version that objects may be stored in cannot be taken away.
fn stored_versions(definition: &Value, out: &mut Vec<Cause>) {
    let versions = at(definition, &["spec", "versions"]).and_then(Value::as_array);
    let known: Vec<Option<&Value>> = versions.into_iter().flatten().map(|v| v.get("name")).collect();
    let stored = at(definition, &["status", "storedVersions"]).and_then(Value::as_array);
    for (i, version) in stored.into_iter().flatten().enumerate() {
        if !known.contains(&Some(version)) {
            let path = join_index("status.storedVersions", i);
            out.push(Cause::invalid_value(
                path,
                Some(version),
                "must appear in spec.versions",
            ));
        }
    }
}

/// By which the community approves of a definition in one of its groups.
const APPROVED: &str = "api-approved.kubernetes.io";

fn versions(definition: &Value, out: &mut Vec<Cause>) {
    let versions = at(definition, &["spec", "versions"]).and_then(Value::as_array);
    let versions: Vec<&Value> = versions.into_iter().flatten().collect();
    if versions.is_empty() {
        out.push(Cause::required("spec.versions", "must have at least one version"));
        return;
    }
    let stored = versions
        .iter()
        .filter(|v| v.get("storage") == Some(&Value::Bool(true)))
        .count();
    if stored != 1 {
        out.push(Cause::invalid(
            "spec.versions",
            "must have exactly one version marked as storage version",
        ));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (i, version) in versions.iter().enumerate() {
        let path = join_index("spec.versions", i);
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        if !names::dns_1035_label(name).is_empty() {
            out.push(Cause::invalid(join(&path, "name"), "must be a DNS label"));
        }
        if !seen.insert(name) {
            out.push(Cause::duplicate(
                join(&path, "name"),
                format!("Duplicate value: {name:?}"),
            ));
        }
        for key in ["served", "storage"] {
            if version.get(key).and_then(Value::as_bool).is_none() {
                out.push(Cause::required(join(&path, key), "Required value"));
            }
        }
        schema(version, &path, out);
        scale(version, &path, out);
        if version.get("deprecationWarning").is_some()
            && version.get("deprecated") != Some(&Value::Bool(true))
        {
            let why = "can only be set for deprecated versions";
            let warning = version.get("deprecationWarning");
            out.push(Cause::invalid_value(
                join(&path, "deprecationWarning"),
                warning,
                why,
            ));
        }
        for (i, column) in version
            .get("additionalPrinterColumns")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let path = join_index(&join(&path, "additionalPrinterColumns"), i);
            let ty = text(column, &["type"]).unwrap_or_default();
            if ty.is_empty() {
                out.push(Cause::required(join(&path, "type"), "Required value"));
            } else if !COLUMN_TYPES.contains(&ty) {
                let why = format!(
                    "Unsupported value: {ty:?}: supported values: {}",
                    COLUMN_TYPES.join(", ")
                );
                out.push(Cause::not_supported(join(&path, "type"), why));
            }
            if text(column, &["name"]).unwrap_or_default().is_empty() {
                out.push(Cause::required(join(&path, "name"), "Required value"));
            }
            if let Err(error) = JsonPath::parse(text(column, &["jsonPath"]).unwrap_or_default()) {
                out.push(Cause::invalid(join(&path, "jsonPath"), error.to_string()));
            }
        }
    }
}

/// What a printer column may hold.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// Where replicas and the selector are.
fn scale(version: &Value, path: &str, out: &mut Vec<Cause>) {
    let Some(scale) = at(version, &["subresources", "scale"]) else {
        return;
    };
    let path = join(path, "subresources.scale");
    for (key, required, below) in [
        ("specReplicasPath", true, &[".spec."][..]),
        ("statusReplicasPath", true, &[".status."]),
        ("labelSelectorPath", false, &[".status.", ".spec."]),
    ] {
        match text(scale, &[key]).unwrap_or_default() {
            "" if required => out.push(Cause::required(join(&path, key), "Required value")),
            "" => {}
            at if below.iter().any(|start| at.starts_with(start)) => {}
            _ => out.push(Cause::invalid_value(
                join(&path, key),
                scale.get(key),
                &format!("should be a json path under {}", below.join(" or ")),
            )),
        }
    }
}

fn schema(version: &Value, path: &str, out: &mut Vec<Cause>) {
    let path = join(path, "schema.openAPIV3Schema");
    match at(version, &["schema", "openAPIV3Schema"]) {
        None => out.push(Cause::required(path, "schemas are required")),
        Some(schema) => {
            out.extend(check_structural(schema, &path));
            for error in Rules::compile(schema).err().into_iter().flatten() {
                out.push(Cause::invalid(
                    join(&path, "x-kubernetes-validations"),
                    format!("rule does not compile: {error}"),
                ));
            }
        }
    }
}
