//! What a definition must satisfy to be stored.

use std::collections::BTreeSet;

use roundhouse_patch::JsonPath;
use serde_json::Value;

use crate::{
    error::Cause,
    names,
    object::{at, text},
    schema::{Rules, check_structural, join, join_index, join_key, named},
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
    if group.is_empty() {
        out.push(Cause::required("spec.group", "Required value"));
    } else if !group.contains('.') || !names::dns_subdomain(group).is_empty() {
        out.push(Cause::invalid(
            "spec.group",
            "should be a domain with at least one dot",
        ));
    }
    for key in ["plural", "singular"] {
        let value = field(&["spec", "names", key]);
        if key == "plural" && value.is_empty() {
            out.push(Cause::required("spec.names.plural", "Required value"));
        } else if !value.is_empty() && !names::dns_1035_label(value).is_empty() {
            out.push(Cause::invalid(format!("spec.names.{key}"), "must be a DNS label"));
        }
    }
    let kind = field(&["spec", "names", "kind"]);
    if kind.is_empty() {
        out.push(Cause::required("spec.names.kind", "Required value"));
    }
    for key in ["kind", "listKind"] {
        let value = field(&["spec", "names", key]);
        if !value.is_empty() && !names::dns_1035_label(&value.to_lowercase()).is_empty() {
            let why = "may have mixed case, but should otherwise match a DNS label";
            out.push(Cause::invalid(format!("spec.names.{key}"), why));
        }
    }
    if kind == field(&["spec", "names", "listKind"]) && !kind.is_empty() {
        out.push(Cause::invalid(
            "spec.names.listKind",
            "kind and listKind may not be the same",
        ));
    }
    match field(&["spec", "scope"]) {
        "" => out.push(Cause::required("spec.scope", "Required value")),
        "Namespaced" | "Cluster" => {}
        _ => out.push(Cause::not_supported(
            "spec.scope",
            "Unsupported value: supported values: \"Cluster\", \"Namespaced\"",
        )),
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
    conversion(definition, &mut out);
    versions(definition, &mut out);
    stored_versions(definition, &mut out);
    out
}

/// Who converts between versions is told with the strategy that asks somebody, and only with that one. Kubernetes names the fields
/// as they were in its first version.
fn conversion(definition: &Value, out: &mut Vec<Cause>) {
    let webhook = at(definition, &["spec", "conversion", "webhook"]);
    let config = webhook.and_then(|webhook| at(webhook, &["clientConfig"]));
    let reviews = webhook.and_then(|webhook| at(webhook, &["conversionReviewVersions"]));
    let reviews = reviews
        .and_then(Value::as_array)
        .filter(|reviews| !reviews.is_empty());
    let (config_path, reviews_path) = (
        "spec.conversion.webhookClientConfig",
        "spec.conversion.conversionReviewVersions",
    );
    if text(definition, &["spec", "conversion", "strategy"]) != Some("Webhook") {
        let why = "should not be set when strategy is not set to Webhook";
        out.extend(config.map(|_| Cause::forbidden(config_path, why)));
        out.extend(reviews.map(|_| Cause::forbidden(reviews_path, why)));
        return;
    }
    if config.is_none() {
        out.push(Cause::required(
            config_path,
            "required when strategy is set to Webhook",
        ));
    }
    match reviews {
        None => out.push(Cause::required(reviews_path, "Required value")),
        Some(reviews) if reviews.iter().any(|review| review == "v1" || review == "v1beta1") => {}
        Some(_) => out.push(Cause::invalid(
            reviews_path,
            "must include at least one of v1, v1beta1",
        )),
    }
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
    let name_of = |version: &&Value| version.get("name").cloned().unwrap_or_default();
    let unique: BTreeSet<String> = versions
        .iter()
        .map(|version| name_of(version).to_string())
        .collect();
    if unique.len() < versions.len() {
        out.push(Cause::invalid(
            "spec.versions",
            "must contain unique version names",
        ));
    }
    for (i, version) in versions.iter().enumerate() {
        let path = join_index("spec.versions", i);
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        if !names::dns_1035_label(name).is_empty() {
            out.push(Cause::invalid(join(&path, "name"), "must be a DNS label"));
        }
        for key in ["served", "storage"] {
            if version.get(key).and_then(Value::as_bool).is_none() {
                out.push(Cause::required(join(&path, key), "Required value"));
            }
        }
        deprecation(version, &path, out);
    }
    // What all versions have is told of the definition itself (`apis/apiextensions/v1/conversion.go`).
    let (first, same) = match versions.as_slice() {
        [] => return,
        [first, rest @ ..] => (*first, |key: &str| {
            rest.iter().all(|version| version.get(key) == first.get(key))
        }),
    };
    let schema_of = |version: &Value| at(version, &["schema", "openAPIV3Schema"]).cloned();
    let same_schema = same("schema") && schema_of(first).is_some();
    let places = |own: &str, of_all: &str, is_same: bool| -> Vec<(&Value, String)> {
        match is_same {
            true => vec![(first, format!("spec.{of_all}"))],
            false => {
                let each = versions.iter().enumerate();
                each.map(|(i, version)| (*version, join(&join_index("spec.versions", i), own)))
                    .collect()
            }
        }
    };
    for (version, path) in places("schema", "validation", same_schema) {
        schema(version, &path, out);
    }
    for (version, path) in places("subresources", "subresources", same("subresources")) {
        scale(version, &path, out);
    }
    let columns_ = "additionalPrinterColumns";
    for (version, path) in places(columns_, columns_, same(columns_)) {
        columns(version, &path, out);
    }
    let (fields, is_same) = ("selectableFields", same_schema && same("selectableFields"));
    for (version, path) in places(fields, fields, is_same) {
        selectable(version, &path, out);
    }
}

/// What users of a version are warned with.
fn deprecation(version: &Value, path: &str, out: &mut Vec<Cause>) {
    let warning = version
        .get("deprecationWarning")
        .filter(|warning| !warning.is_null());
    let Some(text) = warning.and_then(Value::as_str) else {
        return;
    };
    let is_deprecated = version.get("deprecated") == Some(&Value::Bool(true));
    for (is_wrong, why) in [
        (!is_deprecated, "can only be set for deprecated versions"),
        (text.len() > 256, "must be <= 256 characters long"),
        (text.is_empty(), "must not be an empty string"),
        (
            text.chars().any(char::is_control),
            "must only contain printable UTF-8 characters",
        ),
    ] {
        if is_wrong {
            out.push(Cause::invalid_value(
                join(path, "deprecationWarning"),
                warning,
                why,
            ));
        }
    }
}

/// What a printer column may hold.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

/// How it may be written.
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];

fn columns(version: &Value, path: &str, out: &mut Vec<Cause>) {
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (i, column) in columns.into_iter().flatten().enumerate() {
        let path = join_index(path, i);
        let word = |key: &str| text(column, &[key]).unwrap_or_default();
        let one_of = |all: &[&str]| format!("must be one of {}", all.join(","));
        let ty = word("type");
        if ty.is_empty() {
            out.push(Cause::required(join(&path, "type"), one_of(&COLUMN_TYPES)));
        } else if !COLUMN_TYPES.contains(&ty) {
            let why = one_of(&COLUMN_TYPES);
            out.push(Cause::invalid_value(
                join(&path, "type"),
                column.get("type"),
                &why,
            ));
        }
        if !word("format").is_empty() && !COLUMN_FORMATS.contains(&word("format")) {
            let why = one_of(&COLUMN_FORMATS);
            out.push(Cause::invalid_value(
                join(&path, "format"),
                column.get("format"),
                &why,
            ));
        }
        if word("name").is_empty() {
            out.push(Cause::required(join(&path, "name"), "Required value"));
        }
        let at = join(&path, "JSONPath");
        match word("jsonPath") {
            "" => out.push(Cause::required(at, "Required value")),
            text if !text.starts_with('.') => {
                let why = "must be a simple json path starting with .";
                out.push(Cause::invalid_value(at, column.get("jsonPath"), why));
            }
            text => {
                if let Err(error) = JsonPath::parse(text) {
                    out.push(Cause::invalid(at, error.to_string()));
                }
            }
        }
    }
}

/// Fields that objects may be selected by; more are not taken.
const MAX_SELECTABLE: usize = 8;

fn selectable(version: &Value, path: &str, out: &mut Vec<Cause>) {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let schema = at(version, &["schema", "openAPIV3Schema"]);
    let mut seen = BTreeSet::new();
    for (i, field) in fields.into_iter().flatten().enumerate() {
        let at = join(&join_index(path, i), "jsonPath");
        let json_path = text(field, &["jsonPath"]).unwrap_or_default();
        if json_path.is_empty() {
            out.push(Cause::required(at, "Required value"));
            continue;
        }
        let found = schema
            .filter(|_| !json_path.contains('['))
            .and_then(|schema| named(schema, json_path));
        let Some(found) = found else {
            out.push(Cause::invalid_value(
                at,
                field.get("jsonPath"),
                "is an invalid path",
            ));
            continue;
        };
        if json_path == ".metadata" || json_path.starts_with(".metadata.") {
            let why = "must not point to fields in metadata";
            out.push(Cause::invalid_value(&at, field.get("jsonPath"), why));
        }
        if !matches!(text(found, &["type"]), Some("boolean" | "integer" | "string")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            out.push(Cause::invalid_value(&at, field.get("jsonPath"), why));
        }
        if !seen.insert(json_path) {
            out.push(Cause::duplicate(at, format!("Duplicate value: {json_path:?}")));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        let why = format!(
            "Too many: {}: must have at most {MAX_SELECTABLE} items",
            seen.len()
        );
        out.push(Cause::too_many(path, why));
    }
}

/// Where replicas and the selector are.
fn scale(version: &Value, path: &str, out: &mut Vec<Cause>) {
    let Some(scale) = at(version, &["subresources", "scale"]) else {
        return;
    };
    let path = join(path, "scale");
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
    let path = join(path, "openAPIV3Schema");
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn version(name: &str) -> Value {
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"},
                "c-d": {"type": "integer"}}}}}}})
    }

    /// A definition of these versions, with this at that place.
    fn definition(versions: &Value, pointer: &str, value: Value) -> Value {
        let mut definition = json!({"metadata": {"name": "gadgets.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "listKind": "GadgetList"}, "versions": versions}});
        let (above, key) = pointer.rsplit_once('/').unwrap_or(("", "unknown"));
        let above = definition.pointer_mut(above).unwrap();
        match key.parse::<usize>() {
            Ok(index) => above[index] = value,
            Err(_) => above[key] = value,
        }
        definition
    }

    fn causes(definition: &Value) -> String {
        let causes = check(definition).into_iter();
        let causes = causes.map(|cause| {
            format!(
                "{} {}",
                cause.reason.trim_start_matches("FieldValue"),
                cause.field
            )
        });
        causes.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn what_is_wrong_is_told_of_the_field_that_kubernetes_names() {
        let one = || json!([version("v1")]);
        let column = |rest: Value| {
            let mut column = json!({"name": "a", "type": "string", "jsonPath": ".spec.a"});
            for (key, value) in rest.as_object().unwrap() {
                column[key] = value.clone();
            }
            json!([column])
        };
        let fields =
            |paths: &[&str]| -> Value { paths.iter().map(|path| json!({"jsonPath": path})).collect() };
        let first = "/spec/versions/0/";
        for (pointer, value, wants) in [
            ("/spec/unknown", json!(1), ""),
            ("/spec/scope", json!(""), "Required spec.scope"),
            ("/spec/scope", json!("All"), "NotSupported spec.scope"),
            (
                "/spec/group",
                json!(""),
                "Invalid metadata.name, Required spec.group",
            ),
            (
                "/spec/names/plural",
                json!(""),
                "Invalid metadata.name, Required spec.names.plural",
            ),
            (
                "/spec/names/listKind",
                json!("a b"),
                "Invalid spec.names.listKind",
            ),
            (
                "schema/openAPIV3Schema/properties",
                json!({"spec": {}}),
                "Required spec.validation.openAPIV3Schema.properties[spec].type",
            ),
            (
                "schema",
                json!(null),
                "Required spec.versions[0].schema.openAPIV3Schema",
            ),
            (
                "subresources",
                json!({"scale": {"statusReplicasPath": ".status.a"}}),
                "Required spec.subresources.scale.specReplicasPath",
            ),
            ("additionalPrinterColumns", column(json!({"format": "int32"})), ""),
            (
                "additionalPrinterColumns",
                column(json!({"format": "odd"})),
                "Invalid spec.additionalPrinterColumns[0].format",
            ),
            (
                "additionalPrinterColumns",
                column(json!({"type": "odd"})),
                "Invalid spec.additionalPrinterColumns[0].type",
            ),
            (
                "additionalPrinterColumns",
                column(json!({"jsonPath": "{.spec.a}"})),
                "Invalid spec.additionalPrinterColumns[0].JSONPath",
            ),
            (
                "additionalPrinterColumns",
                column(json!({"jsonPath": "$.spec.a"})),
                "Invalid spec.additionalPrinterColumns[0].JSONPath",
            ),
            (
                "additionalPrinterColumns",
                column(json!({"jsonPath": ""})),
                "Required spec.additionalPrinterColumns[0].JSONPath",
            ),
            ("selectableFields", fields(&[".spec.a"]), ""),
            (
                "selectableFields",
                fields(&[".spec.x"]),
                "Invalid spec.selectableFields[0].jsonPath",
            ),
            (
                "selectableFields",
                fields(&["spec.a"]),
                "Invalid spec.selectableFields[0].jsonPath",
            ),
            (
                "selectableFields",
                fields(&[".spec.b"]),
                "Invalid spec.selectableFields[0].jsonPath",
            ),
            (
                "selectableFields",
                fields(&[".spec['c-d']"]),
                "Invalid spec.selectableFields[0].jsonPath",
            ),
            (
                "selectableFields",
                fields(&[".spec.a", ".spec.a"]),
                "Duplicate spec.selectableFields[1].jsonPath",
            ),
            (
                "selectableFields",
                fields(&[""]),
                "Required spec.selectableFields[0].jsonPath",
            ),
            (
                "deprecationWarning",
                json!("old"),
                "Invalid spec.versions[0].deprecationWarning",
            ),
        ] {
            let pointer = match pointer.starts_with('/') {
                true => pointer.to_owned(),
                false => format!("{first}{pointer}"),
            };
            let definition = definition(&one(), &pointer, value.clone());
            assert_eq!(causes(&definition), wants, "{pointer} {value}");
        }
    }

    #[test]
    fn warnings_are_short_and_printable() {
        for (warning, is_right) in [
            (json!("use v2"), true),
            (json!(null), true),
            (json!(""), false),
            (json!("a\nb"), false),
            (json!("x".repeat(257)), false),
        ] {
            let mut version = version("v1");
            version["deprecated"] = json!(true);
            version["deprecationWarning"] = warning.clone();
            let causes = causes(&definition(&json!([version]), "/spec/unknown", json!(1)));
            let want = if is_right {
                ""
            } else {
                "Invalid spec.versions[0].deprecationWarning"
            };
            assert_eq!(causes, want, "{warning}");
        }
    }

    #[test]
    fn what_versions_share_is_told_once() {
        let spec = |spec: Value| {
            let mut v2 = version("v2");
            v2["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
            json!([version("v1"), v2])
        };
        let both = json!([version("v1"), version("v2")]);
        for (versions, pointer, value, wants) in [
            (
                spec(json!({})),
                "/spec/unknown",
                json!(1),
                "Required spec.versions[1].schema.openAPIV3Schema.properties[spec].type",
            ),
            (
                spec(json!({"type": "object"})),
                "/spec/versions/1/selectableFields",
                json!([{"jsonPath": ".spec.a"}]),
                "Invalid spec.versions[1].selectableFields[0].jsonPath",
            ),
            (both.clone(), "/spec/unknown", json!(1), ""),
            (
                both.clone(),
                "/spec/versions/1/name",
                json!("v1"),
                "Invalid spec.versions",
            ),
            (
                both,
                "/spec/versions/1/additionalPrinterColumns",
                json!([{"name": "a", "type": "string"}]),
                "Required spec.versions[1].additionalPrinterColumns[0].JSONPath",
            ),
        ] {
            assert_eq!(
                causes(&definition(&versions, pointer, value.clone())),
                wants,
                "{pointer} {value}"
            );
        }
    }

    #[test]
    fn a_webhook_goes_with_its_strategy() {
        let config = json!({"clientConfig": {"url": "https://x.dev"}, "conversionReviewVersions": ["v1"]});
        let (of_config, of_reviews) = (
            "spec.conversion.webhookClientConfig",
            "spec.conversion.conversionReviewVersions",
        );
        for (conversion, wants) in [
            (json!({"strategy": "None"}), String::new()),
            (json!({"strategy": "Webhook", "webhook": config}), String::new()),
            (
                json!({"strategy": "Webhook"}),
                format!("Required {of_config}, Required {of_reviews}"),
            ),
            (
                json!({"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v9"]}}),
                format!("Invalid {of_reviews}"),
            ),
            (
                json!({"strategy": "None", "webhook": config}),
                format!("Forbidden {of_config}, Forbidden {of_reviews}"),
            ),
        ] {
            let definition = definition(&json!([version("v1")]), "/spec/conversion", conversion.clone());
            assert_eq!(causes(&definition), wants, "{conversion}");
        }
    }
}
