//! Ignore: the fields of an object whose live value is kept (`ignoreFields`), and how it is kept; pure.

use crate::apply::decode::Manifest;
use crate::apply::strategy::Treatment;
use crate::object;
use roundhouse_api::bundle::{IgnoreCondition, IgnoreFields};
use roundhouse_api::names::annotation;
use roundhouse_patch::field::{FieldPath, keep};
use roundhouse_patch::schema;
use serde_json::Value;
use std::collections::BTreeSet;

/// What `ignoreFields` of a treatment say: of the strategy and of its server-side apply, together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ignored {
    /// Kept whenever the live object has them.
    always: Vec<FieldPath>,
    /// Kept until the bundle changes what it wants of the object.
    until_change: Vec<FieldPath>,
}

/// An entry that is no field path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("updateStrategy.{entry}: {why}")]
pub(crate) struct InvalidPath {
    /// Which entry: `ignoreFields[0].jsonPaths[1]`.
    entry: String,
    why: String,
}

/// Reads the ignored fields of a treatment.
pub(crate) fn ignored(treatment: Treatment<'_>) -> Result<Ignored, InvalidPath> {
    let mut ignored = Ignored::default();
    let Some(strategy) = treatment
        .config
        .and_then(|config| config.update_strategy.as_ref())
    else {
        return Ok(ignored);
    };
    let server_side = strategy.server_side_apply.as_ref();
    let lists = [
        ("ignoreFields", strategy.ignore_fields.as_slice()),
        (
            "serverSideApply.ignoreFields",
            server_side.map_or(&[][..], |apply| &apply.ignore_fields),
        ),
    ];
    for (list, entries) in lists {
        for (at, entry) in entries.iter().enumerate() {
            let at = format!("{list}[{at}]");
            match entry {
                IgnoreFields::Path(path) => ignored.always.push(parse(path, || at)?),
                other @ IgnoreFields::Other(_) => {
                    let why = other.refusal().unwrap_or_default();
                    return Err(InvalidPath { entry: at, why });
                }
                IgnoreFields::Rule(rule) => {
                    for (place, path) in rule.json_paths.iter().enumerate() {
                        let path = parse(path, || format!("{at}.jsonPaths[{place}]"))?;
                        match rule.condition {
                            IgnoreCondition::OnSpokePresent => ignored.always.push(path),
                            IgnoreCondition::OnSpokeChange => ignored.until_change.push(path),
                        }
                    }
                }
            }
        }
    }
    Ok(ignored)
}

/// Reads the `recreateFields` of a treatment.
pub(crate) fn recreate_fields(treatment: Treatment<'_>) -> Result<Vec<FieldPath>, InvalidPath> {
    let strategy = treatment
        .config
        .and_then(|config| config.update_strategy.as_ref());
    let fields = strategy.map_or(&[][..], |strategy| &strategy.recreate_fields);
    let parsed = fields
        .iter()
        .enumerate()
        .map(|(at, path)| parse(path, || format!("recreateFields[{at}]")));
    parsed.collect()
}

fn parse(path: &str, entry: impl FnOnce() -> String) -> Result<FieldPath, InvalidPath> {
    FieldPath::parse(path).map_err(|error| InvalidPath {
        entry: entry(),
        why: error.to_string(),
    })
}

impl Ignored {
    /// The paths that count now: `OnSpokeChange` counts while the live object carries the hash of this very manifest.
    /// The application's generation does not matter to it, that moves with every other component too.
    pub(crate) fn paths(&self, manifest: &Manifest, live: &Value) -> Vec<&FieldPath> {
        let stands = object::annotation(live, annotation::DESIRED_HASH) == Some(manifest.digest.as_str());
        let until_change = self.until_change.iter().filter(|_| stands);
        self.always.iter().chain(until_change).collect()
    }
}

/// Lays the live values of `paths` over the object that is to be sent; answers which of its locations that were, as JSON
/// pointers.
pub(crate) fn keep_live(wanted: &mut Value, live: &Value, paths: &[&FieldPath]) -> BTreeSet<String> {
    let text = |field: &str| wanted.get(field).and_then(Value::as_str).unwrap_or_default();
    let schema = schema::lookup(text("apiVersion"), text("kind"));
    let mut locations = BTreeSet::new();
    for path in paths {
        let kept = keep(path, wanted, live, schema);
        locations.extend(kept.overlaid);
        locations.extend(kept.added);
    }
    locations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::decode::decode;
    use roundhouse_api::bundle::{ManifestConfig, UpdateStrategyType};
    use serde_json::json;

    fn config(strategy: Value) -> ManifestConfig {
        let mut config = json!({"resourceIdentifier": {}});
        config["updateStrategy"] = strategy;
        serde_json::from_value(config).unwrap()
    }

    fn of(config: &ManifestConfig) -> Treatment<'_> {
        Treatment {
            config: Some(config),
            type_: UpdateStrategyType::Update,
        }
    }

    fn manifest(object: Value) -> Manifest {
        decode(vec![object]).manifests.remove(0)
    }

    #[test]
    fn an_entry_that_is_neither_path_nor_rule_is_named_with_what_is_wrong() {
        for (entry, why) in [
            (
                json!(5),
                "5 is no field path; use a field path, or {condition, jsonPaths}",
            ),
            (
                json!({"condition": "OnSpokeChanges", "jsonPaths": [".data.a"]}),
                "unknown variant `OnSpokeChanges`, expected `OnSpokePresent` or `OnSpokeChange`; use",
            ),
            (
                json!({"jsonPaths": ".data.a"}),
                "invalid type: string \".data.a\", expected a sequence; use",
            ),
        ] {
            let config = config(json!({"type": "Update", "ignoreFields": [".data.b", entry]}));
            let refused = ignored(of(&config)).unwrap_err().to_string();
            let expected = format!("updateStrategy.ignoreFields[1]: {why}");
            assert!(refused.starts_with(&expected), "{refused}");
        }
    }

    fn map(data: Value) -> Manifest {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "annotations": {"app.oam.dev/generation": "2", "mine": "1"}}});
        object["data"] = data;
        manifest(object)
    }

    #[test]
    fn both_lists_count_and_each_rule_by_its_condition() {
        let config = config(json!({"type": "Update", "ignoreFields": [".data.a",
            {"condition": "OnSpokeChange", "jsonPaths": ["/data/b"]}],
            "serverSideApply": {"ignoreFields": [{"jsonPaths": ["data.c"]}]}}));
        let ignored = ignored(of(&config)).unwrap();
        let manifest = map(json!({"a": "1"}));
        let stamped = |hash: &str| json!({"metadata": {"annotations": {annotation::DESIRED_HASH: hash}}});
        for (live, expected) in [
            (stamped(&manifest.digest), &[".data.a", "data.c", "/data/b"][..]),
            (stamped("another"), &[".data.a", "data.c"]),
            (json!({}), &[".data.a", "data.c"]),
        ] {
            let paths: Vec<String> = ignored
                .paths(&manifest, &live)
                .iter()
                .map(|path| path.to_string())
                .collect();
            assert_eq!(paths, expected, "{live}");
        }
    }

    #[test]
    fn an_entry_that_is_no_path_is_named() {
        for (strategy, expected) in [
            (
                json!({"ignoreFields": [".data", "a..b"]}),
                "updateStrategy.ignoreFields[1]: field path \"a..b\"",
            ),
            (
                json!({"ignoreFields": [{"jsonPaths": [".data", "a["]}]}),
                "updateStrategy.ignoreFields[0].jsonPaths[1]: field path \"a[\"",
            ),
            (
                json!({"serverSideApply": {"ignoreFields": [{"jsonPaths": [""]}]}}),
                "updateStrategy.serverSideApply.ignoreFields[0].jsonPaths[0]: field path \"\"",
            ),
        ] {
            let config = config(strategy);
            let error = ignored(of(&config)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let config = config(json!({"recreateFields": ["spec.selector", "/-"]}));
        let error = recreate_fields(of(&config)).unwrap_err().to_string();
        assert!(error.starts_with("updateStrategy.recreateFields[1]: "), "{error}");
    }
}
