//! Outputs of steps that dispatch: what agents are asked to report of live objects, and whether clusters agree on it; pure.

use super::{patching::first_object, placing::Placed};
use crate::{
    dispatch::Observed,
    render::Rendered,
    workflow::{ClusterEvidence, OutputEvidence},
};
use roundhouse_api::{
    application::{Feedback, OutputSource, StepOutput, ValidApplication},
    bundle::{
        FeedbackExpression, FeedbackPath, FeedbackRule, FeedbackType, FieldValue, FieldValueType,
        ManifestConfig, ResourceIdentifier, ResourceMeta,
    },
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

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
            let OutputSource::Feedback {
                component: Some(component),
                read,
            } = &output.value
            else {
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
        let rule = rule(output.name, output.read);
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

/// What agents are to report of the object of a step: it is the only one in its Bundle, whatever its plural is.
pub(super) fn step_config(outputs: &[StepOutput]) -> ManifestConfig {
    let any = || "*".to_owned();
    let of = |output: &StepOutput| match &output.value {
        OutputSource::Feedback {
            component: None,
            read,
        } => Some(rule(&output.name, read)),
        _ => None,
    };
    ManifestConfig {
        resource_identifier: ResourceIdentifier {
            group: any(),
            resource: any(),
            namespace: any(),
            name: any(),
        },
        feedback_rules: outputs.iter().filter_map(of).collect(),
        ..ManifestConfig::default()
    }
}

fn rule(name: &str, read: &Feedback) -> FeedbackRule {
    match read {
        Feedback::Path(path) => FeedbackRule {
            type_: FeedbackType::JSONPaths,
            json_paths: vec![FeedbackPath {
                name: name.to_owned(),
                path: path.clone(),
                ..FeedbackPath::default()
            }],
            ..FeedbackRule::default()
        },
        Feedback::Expression(expression) => FeedbackRule {
            type_: FeedbackType::CEL,
            cel_expressions: vec![FeedbackExpression {
                name: name.to_owned(),
                expression: expression.clone(),
            }],
            ..FeedbackRule::default()
        },
    }
}

/// What the clusters of each step report for its outputs, by name: those that the step does not have to wait for may be
/// silent. A report counts only if it is about what is wanted there.
pub(super) fn outputs(
    valid: &ValidApplication,
    rendered: &Rendered,
    placed: &[Placed],
    clusters: &BTreeMap<String, Result<ClusterEvidence, String>>,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
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
        let is_it = |meta: &ResourceMeta| {
            let (kind, namespace, name) = &output.object;
            meta.kind == *kind && meta.namespace == *namespace && meta.name == *name
        };
        let clusters = step.decision.clusters.iter().filter(passes);
        all.extend(agreed(output.name, clusters, observed, is_it));
    }
    all
}

/// What the clusters that passed report for the outputs of a step that has its own object in them.
pub(super) fn step_outputs(
    outputs: &[StepOutput],
    passed: &[&String],
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
) -> BTreeMap<String, OutputEvidence> {
    let own = outputs
        .iter()
        .filter(|output| matches!(output.value, OutputSource::Feedback { component: None, .. }));
    own.filter_map(|output| agreed(&output.name, passed.iter().copied(), observed, |_| true))
        .collect()
}

/// Whether these clusters report the same of an object; `None` where there is none.
fn agreed<'c>(
    output: &str,
    clusters: impl Iterator<Item = &'c String>,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    is_it: impl Fn(&ResourceMeta) -> bool,
) -> Option<(String, OutputEvidence)> {
    let mut first: Option<(&String, Value)> = None;
    let mut missing = Vec::new();
    let mut differs = None;
    for cluster in clusters {
        let held = observed.get(cluster).map_or(&[][..], Vec::as_slice);
        match (reported(held, output, &is_it), &first) {
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
        (None, true, None) => return None,
        (None, false, _) => OutputEvidence::Missing { clusters: missing },
    };
    Some((output.to_owned(), evidence))
}

/// The value that a cluster reports.
fn reported(held: &[Arc<Observed>], output: &str, is_it: impl Fn(&ResourceMeta) -> bool) -> Option<Value> {
    let reports = held.iter().filter_map(|bundle| bundle.own_report());
    let manifests = reports.filter_map(|status| status.resource_status.as_ref());
    let all = manifests.flat_map(|status| &status.manifests);
    let mut own = all.filter(|manifest| is_it(&manifest.resource_meta));
    own.find_map(|manifest| {
        let values = &manifest.status_feedback.as_ref()?.values;
        let value = values.iter().find(|value| value.name == output)?;
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
