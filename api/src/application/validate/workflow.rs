//! `spec.workflow`, and the steps that stand in for it where there is none.

use super::{
    deploy::{self, Placing, RULES, check_together},
    node::{Node, Object, Shape},
    policy::{self, Policies},
};
use crate::application::{StepKind, SuspendProperties, ValidStep};
use serde_json::Value;
use std::collections::BTreeSet;

const WORKFLOW: Shape = Shape {
    known: &["steps"],
    refused: &[
        ("mode", "mode is not supported yet: steps run one after the other"),
        ("ref", "ref is not supported yet: write the steps here"),
    ],
};
const STEP: Shape = Shape {
    known: &["name", "type", "properties"],
    refused: &[
        ("if", "if is not supported yet"),
        ("timeout", "timeout is not supported yet"),
        (
            "dependsOn",
            "dependsOn is not supported yet: steps run one after the other",
        ),
        ("inputs", "inputs are not supported yet"),
        ("outputs", "outputs are not supported yet"),
        (
            "subSteps",
            "subSteps are not supported yet: list the steps one after the other",
        ),
        ("mode", "mode is not supported yet: steps run one after the other"),
        ("meta", "meta is not supported yet"),
        (
            "stage",
            "stage is not supported yet: every step runs after rendering",
        ),
    ],
};
const SUSPEND: Shape = Shape {
    known: &["message"],
    refused: &[(
        "duration",
        "duration is not supported yet: resume the workflow by hand",
    )],
};

/// Step types that are built in.
const TYPES: [&str; 3] = ["open-cluster-management", "deploy", "suspend"];
/// Step types that KubeVela's users and the seed know.
const KNOWN_ELSEWHERE: [&str; 26] = [
    "apply-component",
    "apply-application",
    "apply-object",
    "apply-deployment",
    "apply-remaining",
    "read-object",
    "delete-object",
    "wait",
    "step-group",
    "request",
    "webhook",
    "notification",
    "rollback",
    "break",
    "fail",
    "export",
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
const WHERE: &str = "nothing says where to run: add a policy of type placement or topology, or a step such as {type: deploy, \
                     properties: {placement: [{clusterSelector: {region: east}, replicas: \"100%\"}]}}";

/// Reads all steps; without a workflow, one step per policy that places.
pub(super) fn read_all<'a>(spec: &Object<'a>, policies: &Policies<'a>) -> Vec<ValidStep> {
    let Some(node) = spec.optional("workflow") else {
        return from_policies(spec, policies);
    };
    let Some(workflow) = node.object(&WORKFLOW) else {
        return Vec::new();
    };
    let Some(list) = workflow.optional("steps") else {
        return from_policies(spec, policies);
    };
    let Some(entries) = list.list() else {
        return Vec::new();
    };
    if entries.is_empty() {
        return from_policies(spec, policies);
    }
    let mut names = BTreeSet::new();
    let mut placing = Vec::new();
    let steps: Vec<ValidStep> = entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| step(index, entry, spec, policies, &mut names, &mut placing))
        .collect();
    let type_of = |entry: &Node<'_>| entry.value.get("type").and_then(Value::as_str).map(str::to_owned);
    if entries
        .iter()
        .all(|entry| type_of(entry).as_deref() == Some("suspend"))
    {
        list.refuse(WHERE);
    }
    check_together(&placing, &list);
    steps
}

fn from_policies<'a>(spec: &Object<'a>, policies: &Policies<'a>) -> Vec<ValidStep> {
    let Some(list) = spec.optional("policies") else {
        spec.refuse(WHERE);
        return Vec::new();
    };
    let places = |entry: &Value| {
        entry
            .get("type")
            .and_then(Value::as_str)
            .is_some_and(policy::places)
    };
    if !list.value.as_array().is_some_and(|list| list.iter().any(places)) {
        spec.refuse(WHERE);
    }
    let mut placing = Vec::new();
    let mut steps = Vec::new();
    for policy in policies.all.iter().filter(|policy| policy.places()) {
        let Some(deploy) = deploy::from_policy(policy, policies, spec) else {
            continue;
        };
        let properties = policy.node.value.get("properties").unwrap_or(&Value::Null);
        if deploy.references().next().is_none() {
            placing.push(Placing {
                name: policy.name.to_owned(),
                spec: deploy.placement.clone(),
                at: policy.node.child("properties", properties),
            });
        }
        steps.push(ValidStep {
            name: policy.name.to_owned(),
            type_: "deploy".to_owned(),
            kind: StepKind::Deploy(Box::new(deploy)),
        });
    }
    check_together(&placing, &list);
    steps
}

fn step<'a>(
    index: usize,
    node: &Node<'a>,
    spec: &Object<'a>,
    policies: &Policies<'a>,
    names: &mut BTreeSet<String>,
    placing: &mut Vec<Placing<'a>>,
) -> Option<ValidStep> {
    let object = node.object(&STEP)?;
    let name = match object.optional("name") {
        Some(node) => super::name(&node, "step name", names).map(str::to_owned),
        None => {
            let name = format!("step-{index}");
            if !names.insert(name.clone()) {
                node.refuse(format!(
                    "step name {name:?}, the default here, is used twice: give each step its own name"
                ));
            }
            Some(name)
        }
    };
    let type_node = object.required("type", "use one of open-cluster-management, deploy, suspend")?;
    let type_ = type_node.string()?;
    let kind = match type_ {
        "open-cluster-management" | "deploy" => {
            let properties = object.required("properties", &format!("under placement, {RULES}"))?;
            let deploy = deploy::read(&properties, policies, spec)?;
            if deploy.references().next().is_none() {
                placing.push(Placing {
                    name: name.clone().unwrap_or_else(|| format!("step-{index}")),
                    spec: deploy.placement.clone(),
                    at: properties,
                });
            }
            StepKind::Deploy(Box::new(deploy))
        }
        "suspend" => StepKind::Suspend(suspend(&object)?),
        _ => {
            super::refuse_type(&type_node, type_, &TYPES, &KNOWN_ELSEWHERE);
            return None;
        }
    };
    Some(ValidStep {
        name: name?,
        type_: type_.to_owned(),
        kind,
    })
}

fn suspend(step: &Object<'_>) -> Option<SuspendProperties> {
    let Some(properties) = step.optional("properties") else {
        return Some(SuspendProperties::default());
    };
    let message = properties
        .object(&SUSPEND)?
        .optional("message")
        .and_then(|node| node.string());
    Some(SuspendProperties {
        message: message.map(str::to_owned),
    })
}
