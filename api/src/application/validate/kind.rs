//! What the types of steps say in their properties.

use super::{
    action, component,
    deploy::{self, RULES},
    node::{Node, Object, Shape, choice},
    overrides,
    policy::Policies,
    step::{self, Scope, UNTIL_HINT},
};
use crate::application::{
    ActStep, ActionKind, ExportStep, ParameterKey, StepKind, SuspendProperties, WaitStep,
};
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
    known: &[&["until", "steps"]],
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

/// Whether steps of this type have an output that others can name.
pub(super) fn has_output(type_: &str) -> bool {
    type_ == "export" || ActionKind::of_type(type_).is_some()
}

/// Reads the properties of a step of a type that is built in, but for groups.
pub(super) fn read<'a>(
    type_: &str,
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
        _ => StepKind::Act(act(ActionKind::of_type(type_)?, object, scope)?),
    })
}

/// Whether an input may be put into the properties of a step of this type at this place.
pub(super) fn takes(type_: &str, key: &ParameterKey) -> Result<(), String> {
    match type_ {
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
    Some(WaitStep {
        until: step::until(&object.required("until", UNTIL_HINT)?, scope)?,
        steps,
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
    let act = |action| ActStep {
        properties: properties.clone(),
        action,
    };
    match action::read_with_paths(kind, properties) {
        Ok(action) => Some(act(scope.keys.is_empty().then_some(action))),
        Err(refused) => {
            // What an input brings is not there yet.
            let brought = |path: &str| {
                let path = path
                    .strip_prefix("properties")
                    .unwrap_or(path)
                    .trim_start_matches('.');
                scope.keys.iter().any(|key| {
                    let key = key.as_str();
                    let below = |inner: &str, outer: &str| {
                        inner.strip_prefix(outer).is_some_and(|rest| {
                            outer.is_empty() || rest.is_empty() || rest.starts_with(['.', '['])
                        })
                    };
                    below(path, key) || below(key, path)
                })
            };
            let refused: Vec<_> = refused
                .into_iter()
                .filter(|(path, _)| !brought(&path.to_string()))
                .collect();
            for (path, reason) in &refused {
                step.refuse_at(path, reason);
            }
            refused.is_empty().then(|| act(None))
        }
    }
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
