//! Outputs of placing steps: what agents are asked to report of live objects, and whether clusters agree on it; pure.

use super::{patching::first_object, placing::Placed};
use crate::{
    dispatch::Observed,
    render::Rendered,
    workflow::{ClusterEvidence, OutputEvidence},
};
use roundhouse_api::{
    application::{Feedback, OutputSource, ValidApplication},
    bundle::{
        FeedbackExpression, FeedbackPath, FeedbackRule, FeedbackType, FieldValue, FieldValueType,
        ManifestConfig, ResourceIdentifier,
    },
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Kind, namespace and name of an object.
type Named = (String, String, String);

/// An output of a placing step: its name, its step, the object and what is read of it.
struct Wanted<'a> {
    name: &'a str,
    step: &'a str,
    group: String,
    object: Named,
    read: &'a Feedback,
}

fn wanted<'a>(valid: &'a ValidApplication, rendered: &Rendered) -> Vec<Wanted<'a>> {
    let mut all = Vec::new();
    for (step, _) in valid.placing() {
        for output in &step.outputs {
            let OutputSource::Feedback { component, read } = &output.value else {
                continue;
            };
            let Some(object) = first_object(rendered, component) else {
                continue;
            };
            let text = |pointer: &str| {
                let text = object.pointer(pointer).and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            };
            let version = text("/apiVersion");
            all.push(Wanted {
                name: &output.name,
                step: &step.name,
                group: version.split_once('/').map_or("", |(group, _)| group).to_owned(),
                object: (text("/kind"), text("/metadata/namespace"), text("/metadata/name")),
                read,
            });
        }
    }
    all
}

/// What agents are to report, one entry for each object: of several the first counts.
pub(super) fn manifest_configs(valid: &ValidApplication, rendered: &Rendered) -> Vec<ManifestConfig> {
    let mut configs: Vec<ManifestConfig> = Vec::new();
    for output in wanted(valid, rendered) {
        let (_, namespace, name) = output.object;
        let identifier = ResourceIdentifier {
            group: output.group,
            // Plurals of custom kinds are not known here.
            resource: "*".to_owned(),
            namespace,
            name,
        };
        let rule = match output.read {
            Feedback::Path(path) => FeedbackRule {
                type_: FeedbackType::JSONPaths,
                json_paths: vec![FeedbackPath {
                    name: output.name.to_owned(),
                    path: path.clone(),
                    ..FeedbackPath::default()
                }],
                ..FeedbackRule::default()
            },
            Feedback::Expression(expression) => FeedbackRule {
                type_: FeedbackType::CEL,
                cel_expressions: vec![FeedbackExpression {
                    name: output.name.to_owned(),
                    expression: expression.clone(),
                }],
                ..FeedbackRule::default()
            },
        };
        match configs
            .iter_mut()
            .find(|config| config.resource_identifier == identifier)
        {
            Some(config) => config.feedback_rules.push(rule),
            None => configs.push(ManifestConfig {
                resource_identifier: identifier,
                feedback_rules: vec![rule],
                ..ManifestConfig::default()
            }),
        }
    }
    configs
}

/// What the clusters of each step report for its outputs, by name: those that the step does not have to wait for may be
/// silent. A report counts only if it is about what is wanted there.
pub(super) fn outputs(
    valid: &ValidApplication,
    rendered: &Rendered,
    placed: &[Placed],
    clusters: &BTreeMap<String, Result<ClusterEvidence, String>>,
    observed: &BTreeMap<String, Vec<Observed>>,
) -> BTreeMap<String, OutputEvidence> {
    let mut all = BTreeMap::new();
    for output in wanted(valid, rendered) {
        let Some(step) = placed.iter().find(|p| p.reached && p.step == output.step) else {
            continue;
        };
        let passes = |cluster: &&String| {
            let shown = clusters.get(*cluster).and_then(|shown| shown.as_ref().ok());
            shown.is_some_and(|evidence| evidence.state.passes(step.wait))
        };
        let mut first: Option<(&String, Value)> = None;
        let mut missing = Vec::new();
        let mut differs = None;
        for cluster in step.decision.clusters.iter().filter(passes) {
            let held = observed.get(cluster).map_or(&[][..], Vec::as_slice);
            match (reported(held, &output), &first) {
                (None, _) => missing.push(cluster.clone()),
                (Some(value), None) => first = Some((cluster, value)),
                (Some(value), Some((_, known))) if value == *known => {}
                (Some(_), Some((one, _))) => {
                    differs.get_or_insert_with(|| OutputEvidence::Differs {
                        one: (*one).clone(),
                        other: cluster.clone(),
                    });
                }
            }
        }
        let evidence = match (differs, missing.is_empty(), first) {
            (Some(differs), ..) => differs,
            (None, true, Some((_, value))) => OutputEvidence::Agreed(value),
            (None, true, None) => continue,
            (None, false, _) => OutputEvidence::Missing { clusters: missing },
        };
        all.insert(output.name.to_owned(), evidence);
    }
    all
}

/// The value that a cluster reports.
fn reported(held: &[Observed], output: &Wanted<'_>) -> Option<Value> {
    let reports = held.iter().filter_map(Observed::own_report);
    let manifests = reports.filter_map(|status| status.resource_status.as_ref());
    let mut own = manifests.flat_map(|status| &status.manifests).filter(|manifest| {
        let meta = &manifest.resource_meta;
        let (kind, namespace, name) = &output.object;
        meta.kind == *kind && meta.namespace == *namespace && meta.name == *name
    });
    own.find_map(|manifest| {
        let values = &manifest.status_feedback.as_ref()?.values;
        let value = values.iter().find(|value| value.name == output.name)?;
        typed(&value.field_value)
    })
}

fn typed(value: &FieldValue) -> Option<Value> {
    match value.type_ {
        FieldValueType::Integer => value.integer.map(Value::from),
        FieldValueType::String => value.string.clone().map(Value::from),
        FieldValueType::Boolean => value.boolean.map(Value::from),
        FieldValueType::JsonRaw => serde_json::from_str(value.json_raw.as_ref()?).ok(),
    }
}
