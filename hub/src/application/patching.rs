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
use serde_json::{Map, Value, json};

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

/// Sets a field: what is there is replaced, what is missing on the way is made.
fn operation(object: &Value, field: &ParameterKey, value: &Value) -> Value {
    let pointer = field.pointer();
    let template = "/spec/template";
    // The seed writes paths of a pod for the workload that runs it.
    let of_pod = pointer.starts_with("/spec/")
        && object.pointer(&first_of(&pointer, 2)).is_none()
        && object
            .pointer(&format!("{template}{}", first_of(&pointer, 2)))
            .is_some();
    let prefix = if of_pod { template } else { "" };
    let segments: Vec<&str> = pointer.split('/').skip(1).collect();
    let mut known = prefix.to_owned();
    let mut depth = 0;
    while let Some(segment) = segments.get(depth) {
        let next = format!("{known}/{segment}");
        if object.pointer(&next).is_none() {
            break;
        }
        known = next;
        depth += 1;
    }
    let Some(first_missing) = segments.get(depth) else {
        return json!({"op": "replace", "path": known, "value": value});
    };
    // From the inside out: a number is a place in a list.
    let missing = segments.iter().skip(depth + 1).rev();
    let made = missing.fold(value.clone(), |inner, segment| match segment.parse::<usize>() {
        Ok(0) => Value::Array(vec![inner]),
        _ => Value::Object(Map::from_iter([(unescaped(segment), inner)])),
    });
    json!({"op": "add", "path": format!("{known}/{first_missing}"), "value": made})
}

/// The first segments of a pointer.
fn first_of(pointer: &str, segments: usize) -> String {
    let end = pointer.match_indices('/').nth(segments).map(|(at, _)| at);
    pointer
        .get(..end.unwrap_or(pointer.len()))
        .unwrap_or(pointer)
        .to_owned()
}

fn unescaped(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
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
