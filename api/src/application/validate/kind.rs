//! What the types of steps say in their properties.

use super::{
    action, component,
    deploy::{self, RULES},
    node::{Node, Object, Shape, choice},
    overrides,
    path::Path,
    placement,
    policy::Policies,
    step::{self, Scope, UNTIL_HINT},
};
use crate::application::{
    ActStep, ActionKind, ClusterObjectStep, ClusterVerb, ExportStep, ParameterKey, StepKind,
    SuspendProperties, WaitFor, WaitStep,
};
use crate::placement::{PlacementSpec, Rule};
use serde_json::{Value, json};

const SUSPEND: Shape = Shape {
    known: &[&["message", "duration"]],
    refused: &[],
};
const MESSAGE: Shape = Shape {
    known: &[&["message"]],
    refused: &[],
};
const WAIT: Shape = Shape {
    known: &[&["until", "steps", "object"]],
    refused: &[(
        "continue",
        "continue is not supported: write the condition under until",
    )],
};
const EXPORT: Shape = Shape {
    known: &[&["type", "component", "value"]],
    refused: &[],
};
const ROLLBACK: Shape = Shape {
    known: &[&["to"]],
    refused: &[],
};

/// Step types that are built in.
pub(super) const TYPES: [&str; 16] = [
    "open-cluster-management",
    "deploy",
    "apply-component",
    "suspend",
    "step-group",
    "wait",
    "break",
    "fail",
    "export",
    "rollback",
    "request",
    "webhook",
    "notification",
    "apply-object",
    "read-object",
    "delete-object",
];
/// Step types that KubeVela's users and the seed know.
pub(super) const KNOWN_ELSEWHERE: [&str; 13] = [
    "apply-application",
    "apply-deployment",
    "apply-remaining",
    "export2config",
    "export2secret",
    "depends-on-app",
    "deploy2env",
    "rollout",
    "blue-green-rollout",
    "traffic-shift",
    "rollout-promotion",
    "gitops",
    "helm-template",
];

/// Whether steps of this type place something.
pub(super) fn places(type_: &str) -> bool {
    matches!(type_, "open-cluster-management" | "deploy" | "apply-component")
}

/// Whether a step has an output that others can name.
pub(super) fn has_output(entry: &Node<'_>) -> bool {
    let acts = |type_| type_ == "export" || ActionKind::of_type(type_).is_some();
    type_of(entry).is_some_and(acts) && !is_in_clusters(entry)
}

/// Whether it is a step whose object is in clusters.
pub(super) fn is_in_clusters(entry: &Node<'_>) -> bool {
    let of_object = matches!(
        type_of(entry),
        Some("apply-object" | "read-object" | "delete-object")
    );
    let clusters = entry.value.pointer("/properties/clusters");
    of_object && clusters.is_some_and(|clusters| !clusters.is_null())
}

/// Reads the properties of a step of a type that is built in, but for groups.
pub(super) fn read<'a>(
    (type_, in_clusters): (&str, bool),
    object: &Object<'a>,
    policies: &Policies<'a>,
    spec: &Object<'a>,
    scope: &Scope<'_>,
) -> Option<StepKind> {
    Some(match type_ {
        "open-cluster-management" | "deploy" | "apply-component" => {
            let single = type_ == "apply-component";
            let what = match single {
                true => "name the component, such as {component: web}".to_owned(),
                false => format!("under placement, {RULES}"),
            };
            let properties = object.required("properties", &what)?;
            StepKind::Deploy(Box::new(deploy::read(
                &properties,
                policies,
                spec,
                scope,
                single,
            )?))
        }
        "suspend" => StepKind::Suspend(suspend(object)?),
        "wait" => StepKind::Wait(wait(object, scope)?),
        "break" => StepKind::Break {
            message: message(object)?,
        },
        "fail" => StepKind::Fail {
            message: message(object)?,
        },
        "export" => StepKind::Export(export(object, spec, scope)?),
        "rollback" => StepKind::Rollback {
            to: rollback(object)?,
        },
        _ if in_clusters => StepKind::ClusterObject(Box::new(cluster_object(type_, object, scope)?)),
        _ => StepKind::Act(act(ActionKind::of_type(type_)?, object, scope)?),
    })
}

/// Whether an input may be put into the properties of a step of this type at this place.
pub(super) fn takes(type_: &str, in_clusters: bool, key: &ParameterKey) -> Result<(), String> {
    match type_ {
        _ if in_clusters => takes_in_clusters(type_, key),
        "apply-component" if ["patch.valueFrom.field", "patch.value"].contains(&key.as_str()) => Ok(()),
        "apply-component" => Err(
            "an input of this step goes to patch.valueFrom.field or patch.value: it sets the field patch.to.field"
                .to_owned(),
        ),
        "export" if key.root() == "value" => Ok(()),
        "export" => Err("an input of this step goes into value".to_owned()),
        _ if ActionKind::of_type(type_).is_some() => Ok(()),
        _ => Err(format!(
            "{type_} takes no input into its properties: leave parameterKey out, and name it in an expression as inputs"
        )),
    }
}

/// Which object it is and where has to be known before the run: tenancy judges it.
fn takes_in_clusters(type_: &str, key: &ParameterKey) -> Result<(), String> {
    let pointer = key.pointer();
    let settled = [
        "/value",
        "/value/apiVersion",
        "/value/kind",
        "/value/metadata",
        "/value/metadata/namespace",
    ];
    match type_ {
        "apply-object" if pointer.starts_with("/value/") && !settled.contains(&pointer.as_str()) => Ok(()),
        "apply-object" => Err(
            "an input of an object in clusters goes below value, such as value.data.key, and says neither its kind nor its \
             namespace, nor the clusters: write these"
                .to_owned(),
        ),
        _ if pointer == "/name" => Ok(()),
        _ => Err("an input of an object in clusters goes into name: write the rest".to_owned()),
    }
}

fn cluster_object(type_: &str, step: &Object<'_>, scope: &Scope<'_>) -> Option<ClusterObjectStep> {
    let properties = step.optional("properties")?;
    let object = properties.open_object()?;
    let clusters = object.optional("clusters")?;
    let verb = match type_ {
        "apply-object" => ClusterVerb::Apply,
        "read-object" => ClusterVerb::Read,
        _ => ClusterVerb::Delete,
    };
    let mut rule = Rule::default();
    match clusters.value.is_array() {
        true => rule.clusters = Some(placement::clusters(&clusters, "step")),
        false => rule.cluster_selector = Some(placement::selector(&clusters)),
    }
    let tolerations = match verb {
        // Its shape refuses them.
        ClusterVerb::Delete => Vec::new(),
        ClusterVerb::Apply | ClusterVerb::Read => placement::tolerations(&object),
    };
    let max_parallel = deploy::max_parallel(&object, WaitFor::Ready);
    let max_failed_clusters = deploy::max_failed_clusters(&object);
    refuse_unbrought(step, scope, action::check_cluster_object(verb, properties.value)).then(|| {
        ClusterObjectStep {
            verb,
            placement: PlacementSpec {
                placement: vec![rule],
                tolerations,
                ..PlacementSpec::default()
            },
            max_parallel,
            max_failed_clusters,
            takes_of: Vec::new(),
            properties: properties.value.clone(),
            path: properties.path.to_string(),
        }
    })
}

fn suspend(step: &Object<'_>) -> Option<SuspendProperties> {
    let Some(properties) = step.optional("properties") else {
        return Some(SuspendProperties::default());
    };
    let object = properties.object(&SUSPEND)?;
    let message = object.optional("message").and_then(|node| node.string());
    let duration = match object.optional("duration") {
        Some(node) => Some(step::duration(&node)?),
        None => None,
    };
    Some(SuspendProperties {
        message: message.map(str::to_owned),
        duration,
    })
}

/// `message`, the only property of some.
fn message(step: &Object<'_>) -> Option<Option<String>> {
    let Some(properties) = step.optional("properties") else {
        return Some(None);
    };
    match properties.object(&MESSAGE)?.optional("message") {
        Some(node) => Some(Some(node.string()?.to_owned())),
        None => Some(None),
    }
}

fn wait(step: &Object<'_>, scope: &Scope<'_>) -> Option<WaitStep> {
    let what = format!("say what is waited for: {UNTIL_HINT}");
    let object = step.required("properties", &what)?.object(&WAIT)?;
    if let Some(node) = object.optional("object") {
        return wait_for_object(&object, &node, scope);
    }
    let steps = object.list("steps");
    let steps = steps.iter().filter_map(|node| {
        let name = node.text()?;
        if !scope.names.contains(name) {
            let known = choice(name, scope.names.iter());
            node.refuse(format!("there is no step named {name:?}{known}"));
        }
        Some(name.to_owned())
    });
    let steps = steps.collect();
    Some(WaitStep::Fleet {
        until: step::until(&object.required("until", UNTIL_HINT)?, scope)?,
        steps,
    })
}

fn wait_for_object(properties: &Object<'_>, node: &Node<'_>, scope: &Scope<'_>) -> Option<WaitStep> {
    const HINT: &str = "write an expression over object, such as \"object.status.phase == 'Ready'\"";
    if let Some(steps) = properties.optional("steps") {
        steps.refuse(
            "says whose clusters are looked at, and object says to look at an object: keep one of them",
        );
    }
    let object = action::waited(node);
    let until = properties.required("until", HINT)?;
    if until.value.get("ready").is_some() {
        until.refuse(format!(
            "counts clusters, and object says to look at an object: {HINT}"
        ));
        return None;
    }
    let [status, inputs, context] = step::COMMON;
    let until = scope.expression(&until, &["object", status, inputs, context]);
    Some(WaitStep::Object {
        object: object?,
        until: until?,
    })
}

fn export(step: &Object<'_>, spec: &Object<'_>, scope: &Scope<'_>) -> Option<ExportStep> {
    let properties = step.required("properties", "write the value, such as {value: 3}")?;
    let object = properties.object(&EXPORT)?;
    let is_patch = match object.optional("type") {
        Some(node) => node.word(&[("var", false), ("patch", true)])?,
        None => false,
    };
    let filled = scope.keys.iter().any(|key| key.root() == "value");
    if object.present("value").is_none() && !filled {
        object.required(
            "value",
            "write the value, or take it from an input with parameterKey value",
        )?;
    }
    let component = object.optional("component");
    let component = match (is_patch, component) {
        (false, None) => None,
        (false, Some(node)) => {
            node.refuse("is for type: patch only: a value is named by its step, or under outputs");
            return None;
        }
        (true, component) => {
            let node = match component {
                Some(node) => node,
                None => object.required("component", "name the component that is patched")?,
            };
            let name = node.text()?;
            let names = component::names(spec);
            if !names.contains(&name) {
                let known = choice(name, names.into_iter());
                node.refuse(format!("there is no component named {name:?}{known}"));
            }
            if let Some(value) = object.optional("value")
                && !value.value.is_object()
            {
                value.refuse("of a patch is a map that is merged into the component's object");
            } else if let Some(value) = object.optional("value") {
                overrides::check_merge(&value, component::kind_of(spec, name));
            }
            Some(name.to_owned())
        }
    };
    Some(ExportStep {
        properties: properties.value.clone(),
        component,
    })
}

fn rollback(step: &Object<'_>) -> Option<Option<String>> {
    let Some(properties) = step.optional("properties") else {
        return Some(None);
    };
    match properties.object(&ROLLBACK)?.optional("to") {
        Some(node) => Some(Some(node.text()?.to_owned())),
        None => Some(None),
    }
}

fn act(kind: ActionKind, step: &Object<'_>, scope: &Scope<'_>) -> Option<ActStep> {
    let empty = json!({});
    let node = step.optional("properties");
    let properties = node.as_ref().map_or(&empty, |node| node.value);
    let path = node.as_ref().map(|node| node.path.to_string());
    let act = |action| ActStep {
        properties: properties.clone(),
        action,
        path: path.clone().unwrap_or_default(),
    };
    match action::read_with_paths(kind, properties) {
        Ok(action) => Some(act(scope.keys.is_empty().then_some(action))),
        Err(refused) => refuse_unbrought(step, scope, refused).then(|| act(None)),
    }
}

/// Refuses what is wrong with properties, but for what an input brings: that is not there yet. `true` if that is all.
fn refuse_unbrought(step: &Object<'_>, scope: &Scope<'_>, refused: Vec<(Path, String)>) -> bool {
    let brought = |path: &str| {
        let path = path
            .strip_prefix("properties")
            .unwrap_or(path)
            .trim_start_matches('.');
        scope.keys.iter().any(|key| {
            let key = key.as_str();
            let below = |inner: &str, outer: &str| {
                inner
                    .strip_prefix(outer)
                    .is_some_and(|rest| outer.is_empty() || rest.is_empty() || rest.starts_with(['.', '[']))
            };
            below(path, key) || below(key, path)
        })
    };
    let mut none = true;
    for (path, reason) in refused {
        if !brought(&path.to_string()) {
            step.refuse_at(&path, &reason);
            none = false;
        }
    }
    none
}

/// Whether a step says anything where only groups do.
pub(super) fn refuse_group_fields(step: &Object<'_>) {
    for field in ["mode", "subSteps"] {
        if let Some(node) = step.optional(field)
            && !node.value.as_array().is_some_and(Vec::is_empty)
        {
            node.refuse(format!("{field} is for steps of type step-group only"));
        }
    }
}

/// The type of an entry as written.
pub(super) fn type_of<'a>(entry: &Node<'a>) -> Option<&'a str> {
    entry.value.get("type").and_then(Value::as_str)
}
