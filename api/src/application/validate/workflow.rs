//! `spec.workflow`, and the steps that stand in for it where there is none.

use super::{
    node::{Node, Object, Shape, choice},
    placement::{self, NO_OVERRIDES, NO_SPREAD},
    policy::Policies,
};
use crate::{
    application::{DeployStep, StepKind, SuspendProperties, ValidStep, WaitFor},
    placement::{PlacementSpec, ReplicaShare},
};
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
const DEPLOY: Shape = Shape {
    known: &[
        "placement",
        "remainder",
        "rebalance",
        "tolerations",
        "maxClusters",
        "policies",
        "wait",
        "auto",
    ],
    refused: &[
        ("overrides", NO_OVERRIDES),
        ("spread", NO_SPREAD),
        (
            "placementRef",
            "placementRef is not supported yet: use policies, or an inline placement",
        ),
        (
            "maxParallel",
            "maxParallel is not supported yet: use several steps",
        ),
        (
            "parallelism",
            "parallelism is not supported yet: use several steps",
        ),
        (
            "maxFailedClusters",
            "maxFailedClusters is not supported yet: failed clusters make the step wait",
        ),
        (
            "inlinePolicies",
            "inlinePolicies is not supported: write the placement here",
        ),
        (
            "ignoreTerraformComponent",
            "ignoreTerraformComponent is not supported: there are no terraform components",
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
const WHERE: &str = "nothing says where to run: add a policy of type placement, or a step such as {type: deploy, \
                     properties: {placement: [{clusterSelector: {region: east}, replicas: \"100%\"}]}}";
const RULES: &str = "list the rules, such as [{clusterSelector: {region: east}, replicas: \"70%\"}], or name placement \
                     policies under policies";

/// A placing step while all of them are compared.
struct Placing<'a> {
    name: String,
    spec: PlacementSpec,
    /// The map that holds the placement's fields.
    at: Node<'a>,
}

/// Reads all steps; without a workflow, one step per placement policy.
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
        .filter_map(|(index, entry)| step(index, entry, policies, &mut names, &mut placing))
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
    let placements = policies.all.iter().filter(|policy| policy.type_ == "placement");
    let placing: Vec<Placing<'_>> = placements
        .filter_map(|policy| {
            Some(Placing {
                name: policy.name.to_owned(),
                spec: policy.placement.clone()?,
                at: policy
                    .node
                    .child("properties", policy.node.value.get("properties")?),
            })
        })
        .collect();
    match spec.optional("policies") {
        Some(list) => {
            let is_placement = |entry: &Value| entry.get("type").and_then(Value::as_str) == Some("placement");
            if !list
                .value
                .as_array()
                .is_some_and(|list| list.iter().any(is_placement))
            {
                spec.refuse(WHERE);
            }
            check_together(&placing, &list);
        }
        None => spec.refuse(WHERE),
    }
    let step = |placing: Placing<'_>| ValidStep {
        name: placing.name,
        type_: "deploy".to_owned(),
        kind: StepKind::Deploy(Box::new(DeployStep {
            placement: placing.spec,
            wait: WaitFor::default(),
        })),
    };
    placing.into_iter().map(step).collect()
}

fn step<'a>(
    index: usize,
    node: &Node<'a>,
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
            let deploy = deploy(&properties, policies)?;
            placing.push(Placing {
                name: name.clone().unwrap_or_else(|| format!("step-{index}")),
                spec: deploy.placement.clone(),
                at: properties,
            });
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

fn deploy(properties: &Node<'_>, policies: &Policies<'_>) -> Option<DeployStep> {
    let object = properties.object(&DEPLOY)?;
    let wait = object.optional("wait").and_then(|node| {
        node.word(&[
            ("ready", WaitFor::Ready),
            ("applied", WaitFor::Applied),
            ("none", WaitFor::None),
        ])
    });
    if let Some(auto) = object.optional("auto")
        && auto.boolean() == Some(false)
    {
        auto.refuse("auto: false is not supported yet: put a suspend step before this one");
    }
    let placement = match object.optional("policies") {
        None => placement::read(&object, RULES),
        Some(node) if object.has_any(&placement::FIELDS) => {
            node.refuse("cannot be used beside an inline placement: keep one of them");
            PlacementSpec::default()
        }
        Some(node) => named(&node, policies)?,
    };
    Some(DeployStep {
        placement,
        wait: wait.unwrap_or_default(),
    })
}

/// The rules of all named policies, in order. What else they say has to agree.
fn named(node: &Node<'_>, policies: &Policies<'_>) -> Option<PlacementSpec> {
    let entries = node.list()?;
    if entries.is_empty() {
        node.refuse("is empty: name placement policies, or write an inline placement");
    }
    let mut all: Option<(&str, PlacementSpec)> = None;
    let mut seen = BTreeSet::new();
    for entry in &entries {
        let Some(name) = entry.string() else { continue };
        let Some(policy) = policies.find(name) else {
            let known = policies
                .all
                .iter()
                .filter(|p| p.type_ == "placement")
                .map(|p| p.name);
            entry.refuse(format!(
                "there is no policy named {name:?}{}",
                choice(name, known)
            ));
            continue;
        };
        if policy.type_ != "placement" {
            let type_ = policy.type_;
            entry.refuse(format!(
                "policy {name:?} has the type {type_}: only placement policies can be named here"
            ));
            continue;
        }
        if !seen.insert(name) {
            entry.refuse(format!("policy {name:?} is named twice"));
            continue;
        }
        let Some(spec) = policy.placement.clone() else {
            continue;
        };
        match &mut all {
            None => all = Some((name, spec)),
            Some((first, all)) => {
                for field in differences(all, &spec) {
                    entry.refuse(format!("policies {first:?} and {name:?} differ in {field}: within one step they have to agree"));
                }
                all.placement.extend(spec.placement);
            }
        }
    }
    let (_, all) = all?;
    let mut names = BTreeSet::new();
    for (index, rule) in all.placement.iter().enumerate() {
        let name = rule.name_or_index(index);
        if !names.insert(name.clone()) {
            node.refuse(format!(
                "rule name {name:?} is used twice by these policies: give each rule its own name"
            ));
        }
    }
    Some(all)
}

fn differences(a: &PlacementSpec, b: &PlacementSpec) -> Vec<&'static str> {
    let differs = [
        ("remainder", a.remainder != b.remainder),
        ("rebalance", a.rebalance != b.rebalance),
        ("tolerations", a.tolerations != b.tolerations),
        ("maxClusters", a.max_clusters != b.max_clusters),
    ];
    differs
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(field, _)| *field)
        .collect()
}

/// What holds over all placing steps: one remainder, and percentages of at most 100 in all (placement design, rule 2).
fn check_together(placing: &[Placing<'_>], list: &Node<'_>) {
    if let Some((first, others)) = placing.split_first() {
        for other in others
            .iter()
            .filter(|other| other.spec.remainder != first.spec.remainder)
        {
            let (mine, theirs) = (other.spec.remainder, first.spec.remainder);
            let name = &first.name;
            other.at.child("remainder", &Value::Null).refuse(format!(
                "{mine:?} here but {theirs:?} in {name:?}: all placing steps share one remainder, so write the same in each"
            ));
        }
    }
    let mut sum = 0_u64;
    let mut parts = Vec::new();
    for step in placing {
        for (index, rule) in step.spec.placement.iter().enumerate() {
            if let Some(ReplicaShare::Percent(percent)) = rule.replicas {
                sum += u64::from(percent.milli());
                parts.push(format!(
                    "{percent} in {}/{}",
                    step.name,
                    rule.name_or_index(index)
                ));
            }
        }
    }
    if sum > 100_000 {
        let thousandths = format!("{:03}", sum % 1000);
        let decimals = thousandths.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        list.refuse(format!(
            "the percentages of all placing steps add up to {}{point}{decimals}% ({}): at most 100% can be claimed",
            sum / 1000,
            parts.join(", ")
        ));
    }
}
