//! Changes that a run has come to know, as overrides of a decision: there they are recorded, so that what was dispatched
//! can be made again, and their hash is part of what a cluster has to show; pure.

use crate::{
    render::Rendered,
    workflow::{ResolvedChange, ResolvedPatch},
};
use roundhouse_api::{
    application::ParameterKey,
    decision::DecidedOverride,
    placement::{Change, OverrideTarget},
};
use serde_json::{Value, json};

/// What stands for the text itself in a value of an override.
const ESCAPED: (&str, &str) = ("${cluster.", "$${cluster.");

/// The overrides that these changes are, behind `before` others.
pub(super) fn overrides(
    rendered: &Rendered,
    patches: &[ResolvedPatch],
    clusters: &[String],
    before: usize,
) -> Vec<DecidedOverride> {
    let of = |(place, patch): (usize, &ResolvedPatch)| {
        let object = first_object(rendered, &patch.component)?;
        let text = |pointer: &str| object.pointer(pointer)?.as_str().map(str::to_owned);
        let target = OverrideTarget {
            kind: text("/kind")?,
            name: text("/metadata/name")?,
            // Another component may have an object of this kind and name, of another group or in another namespace.
            api_version: text("/apiVersion"),
            namespace: text("/metadata/namespace"),
        };
        let change = match &patch.change {
            ResolvedChange::Merge(value) => Change::Patch(escaped(value).as_object()?.clone()),
            ResolvedChange::Field(field, value) => {
                Change::JsonPatch(vec![operation(object, field, &escaped(value))])
            }
        };
        Some(DecidedOverride {
            index: u32::try_from(before + place).unwrap_or(u32::MAX),
            clusters: clusters.to_vec(),
            target,
            change,
        })
    };
    patches.iter().enumerate().filter_map(of).collect()
}

/// The object that a component stands for: its first one.
pub(super) fn first_object<'r>(rendered: &'r Rendered, component: &str) -> Option<&'r Value> {
    let component = rendered.components.iter().find(|c| c.name == component)?;
    component.manifests.first()
}

/// Where workloads have the pods that they run.
const TEMPLATES: [&str; 2] = ["/spec/template", "/spec/jobTemplate/spec/template"];

/// Sets a field: what is there is replaced, what is missing on the way is made. What cannot be made, such as an entry behind
/// the end of a list, is left for the clusters' overrides to name as missing.
fn operation(object: &Value, field: &ParameterKey, value: &Value) -> Value {
    let pointer = field.pointer();
    let first = first_of(&pointer, 2);
    // The seed writes paths of a pod for the workload that runs it.
    let of_pod = pointer.starts_with("/spec/") && object.pointer(&first).is_none();
    let template = TEMPLATES
        .into_iter()
        .filter(|_| of_pod)
        .find(|template| object.pointer(&format!("{template}{first}")).is_some());
    let prefix = template.unwrap_or("");
    let ends = pointer.match_indices('/').map(|(at, _)| at).skip(1);
    let missing = ends
        .chain([pointer.len()])
        .filter_map(|end| pointer.get(..end))
        .find(|known| object.pointer(&format!("{prefix}{known}")).is_none());
    let Some(missing) = missing else {
        return json!({"op": "replace", "path": format!("{prefix}{pointer}"), "value": value});
    };
    let mut made = object.pointer(prefix).cloned().unwrap_or_default();
    let made = match field.set(&mut made, value.clone()) {
        Ok(()) => made.pointer(missing).cloned(),
        Err(_) => None,
    };
    match made {
        Some(made) => json!({"op": "add", "path": format!("{prefix}{missing}"), "value": made}),
        None => json!({"op": "replace", "path": format!("{prefix}{pointer}"), "value": value}),
    }
}

/// The first segments of a pointer.
fn first_of(pointer: &str, segments: usize) -> String {
    let end = pointer.match_indices('/').nth(segments).map(|(at, _)| at);
    pointer
        .get(..end.unwrap_or(pointer.len()))
        .unwrap_or(pointer)
        .to_owned()
}

/// Values are texts of others: what looks like a variable in them is none.
fn escaped(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(ESCAPED.0, ESCAPED.1)),
        Value::Array(list) => Value::Array(list.iter().map(escaped).collect()),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (key.clone(), escaped(value)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::RenderedComponent;

    #[test]
    fn fields_are_set_where_they_are_and_made_where_they_are_not() {
        let deployment = json!({"kind": "Deployment", "spec": {"replicas": 2, "template": {"spec": {"containers": [
            {"name": "web", "image": "x"}]}}}});
        let op = |field: &str| operation(&deployment, &ParameterKey::parse(field).unwrap(), &json!("v"));
        for (field, expected) in [
            (
                "spec.containers[0].envFrom[0].secretRef.name",
                json!({"op": "add", "path": "/spec/template/spec/containers/0/envFrom",
                    "value": [{"secretRef": {"name": "v"}}]}),
            ),
            (
                "spec.containers[0].image",
                json!({"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "v"}),
            ),
            (
                "spec.template.spec.containers[0].image",
                json!({"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "v"}),
            ),
            (
                "spec.paused",
                json!({"op": "add", "path": "/spec/paused", "value": "v"}),
            ),
            (
                "metadata.annotations[\"a/b\"]",
                json!({"op": "add", "path": "/metadata", "value": {"annotations": {"a/b": "v"}}}),
            ),
        ] {
            assert_eq!(op(field), expected, "{field}");
            let mut patched = deployment.clone();
            roundhouse_patch::json_patch(&mut patched, &json!([op(field)])).unwrap();
            assert_ne!(patched, deployment, "{field}");
        }
    }

    #[test]
    fn what_is_made_is_what_the_path_says() {
        let cron = json!({"kind": "CronJob", "metadata": {"annotations": null}, "spec": {"jobTemplate": {"spec": {"template":
            {"spec": {"containers": [{"name": "job", "env": [{"name": "a"}]}]}}}}}});
        let pod = "/spec/jobTemplate/spec/template/spec/containers/0";
        let op = |field: &str| operation(&cron, &ParameterKey::parse(field).unwrap(), &json!("v"));
        for (field, expected) in [
            (
                "spec.containers[0].envFrom[0].secretRef.name",
                json!({"op": "add", "path": format!("{pod}/envFrom"), "value": [{"secretRef": {"name": "v"}}]}),
            ),
            (
                "spec.containers[0].env[1].name",
                json!({"op": "add", "path": format!("{pod}/env/1"), "value": {"name": "v"}}),
            ),
            // The name of an annotation, not a place in a list.
            (
                "data[\"0\"]",
                json!({"op": "add", "path": "/data", "value": {"0": "v"}}),
            ),
        ] {
            assert_eq!(op(field), expected, "{field}");
            roundhouse_patch::json_patch(&mut cron.clone(), &json!([op(field)])).unwrap();
        }
        // There is nothing before it.
        for field in ["spec.containers[0].envFrom[1].name", "spec.containers[3].name"] {
            let op = op(field);
            assert_eq!(op["op"], "replace", "{field}");
            assert!(roundhouse_patch::json_patch(&mut cron.clone(), &json!([op])).is_err());
        }
    }

    #[test]
    fn changes_are_overrides_of_the_components_first_object() {
        let rendered = Rendered {
            components: vec![RenderedComponent {
                name: "web".to_owned(),
                manifests: vec![
                    json!({"kind": "Deployment", "metadata": {"name": "web"}}),
                    json!({"kind": "Service", "metadata": {"name": "web"}}),
                ],
            }],
            ..Rendered::default()
        };
        let patch = |component: &str| ResolvedPatch {
            component: component.to_owned(),
            change: ResolvedChange::Merge(json!({"spec": {"a": "of ${cluster.name}"}})),
        };
        let clusters = ["c1".to_owned()];
        let made = overrides(&rendered, &[patch("web"), patch("other")], &clusters, 3);
        assert_eq!(made.len(), 1);
        assert_eq!((made[0].index, made[0].target.kind.as_str()), (3, "Deployment"));
        let expected = json!({"spec": {"a": "of $${cluster.name}"}});
        assert_eq!(
            made[0].change,
            Change::Patch(expected.as_object().unwrap().clone())
        );
    }
}
