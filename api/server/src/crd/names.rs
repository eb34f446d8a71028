//! What a definition must satisfy to be stored.

use roundhouse_patch::JsonPath;
use serde_json::Value;

use crate::{
    error::Cause,
    names,
    object::{at, text},
    schema::{Rules, check_structural, join, join_index},
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
    versions(definition, &mut out);
    out
}

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
        for (i, column) in version
            .get("additionalPrinterColumns")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let path = join_index(&join(&path, "additionalPrinterColumns"), i);
            if let Err(error) = JsonPath::parse(text(column, &["jsonPath"]).unwrap_or_default()) {
                out.push(Cause::invalid(join(&path, "jsonPath"), error.to_string()));
            }
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
