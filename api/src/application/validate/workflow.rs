//! `spec.workflow`, and the steps that stand in for it where there is none.

use super::{
    component,
    deploy::{self, Placing, check_together},
    kind,
    node::{Node, Object, Shape},
    objects::Applied,
    policy::{self, Policies},
    step::{self, Origin, Scope},
};
use crate::application::{
    ActionKind, GroupStep, Mode, StepKind, StepNames, ValidStep, WaitStep, cycle, order,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Steps of one workflow, those in groups included.
const MAX_STEPS: usize = 500;

const WORKFLOW: Shape = Shape {
    known: &[&["mode", "steps"]],
    refused: &[("ref", "ref is not supported yet: write the steps here")],
};
const MODE: Shape = Shape {
    known: &[&["steps", "subSteps"]],
    refused: &[],
};
const MODES: [(&str, Mode); 2] = [("StepByStep", Mode::StepByStep), ("DAG", Mode::Dag)];
/// What every step has, groups and those in groups included.
const COMMON: [&str; 8] = [
    "name",
    "type",
    "meta",
    "if",
    "timeout",
    "dependsOn",
    "inputs",
    "outputs",
];
const STEP: Shape = Shape {
    known: &[&COMMON, &["mode", "subSteps", "properties"]],
    refused: &[STAGE],
};
const SUB_STEP: Shape = Shape {
    known: &[&COMMON, &["properties"]],
    refused: &[
        STAGE,
        (
            "subSteps",
            "a step-group cannot be in another one: list its steps here",
        ),
        ("mode", "mode is for steps of type step-group only"),
    ],
};
const STAGE: (&str, &str) = (
    "stage",
    "stage is not supported yet: every step runs after rendering",
);

const WHERE: &str = "nothing says where to run: add a policy of type placement or topology, or a step such as {type: deploy, \
                     properties: {placement: [{clusterSelector: {region: east}, replicas: \"100%\"}]}}";

/// Reads all steps and how they follow one another; without a workflow, one step per policy that places.
pub(super) fn read_all<'a>(spec: &Object<'a>, policies: &Policies<'a>) -> (Vec<ValidStep>, Mode) {
    let Some(node) = spec.optional("workflow") else {
        return (from_policies(spec, policies), Mode::StepByStep);
    };
    let Some(workflow) = node.object(&WORKFLOW) else {
        return (Vec::new(), Mode::StepByStep);
    };
    let (mode, inner_mode) = modes(&workflow);
    let Some(list) = workflow.optional("steps") else {
        return (from_policies(spec, policies), mode);
    };
    let Some(entries) = list.list() else {
        return (Vec::new(), mode);
    };
    if entries.is_empty() {
        return (from_policies(spec, policies), mode);
    }
    let mut reader = Reader {
        spec,
        policies,
        inner_mode,
        names: StepNames::default(),
        outputs: BTreeSet::new(),
        given: BTreeSet::new(),
        seen: BTreeSet::new(),
        applied: Applied::default(),
        placing: Vec::new(),
    };
    let all: Vec<Node<'a>> = entries
        .iter()
        .flat_map(|entry| std::iter::once(entry.clone()).chain(inner(entry)))
        .collect();
    if all.len() > MAX_STEPS {
        list.refuse(format!("{} steps: at most {MAX_STEPS} can be run", all.len()));
        return (Vec::new(), mode);
    }
    reader.look_ahead(&entries);
    let steps: Vec<Option<ValidStep>> = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| reader.step(&format!("step-{index}"), entry, true))
        .collect();
    let types: Vec<&str> = all.iter().filter_map(kind::type_of).collect();
    let known = |type_: &&str| kind::TYPES.contains(type_);
    if types.len() == all.len() && types.iter().all(known) && !types.iter().any(|t| kind::places(t)) {
        list.refuse(WHERE);
    }
    check_together(&reader.placing, &list);
    let whole = steps.iter().all(Option::is_some);
    let mut steps: Vec<ValidStep> = steps.into_iter().flatten().collect();
    if whole {
        check_order(&steps, mode, &entries, &list);
        check_waits(&steps, &entries);
    }
    note_references(&mut steps);
    (steps, mode)
}

/// `mode`: of the steps, and of steps in groups.
fn modes(workflow: &Object<'_>) -> (Mode, Mode) {
    let object = workflow.optional("mode").and_then(|node| node.object(&MODE));
    let read = |field: &str, default| {
        let node = object.as_ref().and_then(|object| object.optional(field));
        node.and_then(|node| node.word(&MODES)).unwrap_or(default)
    };
    (read("steps", Mode::StepByStep), read("subSteps", Mode::Dag))
}

/// The steps of a group, as far as they are written as a list.
fn inner<'a>(entry: &Node<'a>) -> Vec<Node<'a>> {
    let list = entry.value.get("subSteps").filter(|list| list.is_array());
    list.and_then(|list| entry.child("subSteps", list).list())
        .unwrap_or_default()
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
                only: None,
                at: policy.node.child("properties", properties),
            });
        }
        steps.push(ValidStep {
            name: policy.name.to_owned(),
            type_: "deploy".to_owned(),
            alias: None,
            kind: StepKind::Deploy(Box::new(deploy)),
            condition: None,
            timeout: None,
            depends_on: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            referenced: Vec::new(),
        });
    }
    check_together(&placing, &list);
    steps
}

struct Reader<'r, 'a> {
    spec: &'r Object<'a>,
    policies: &'r Policies<'a>,
    inner_mode: Mode,
    /// All steps.
    names: StepNames,
    /// The outputs of all steps.
    outputs: BTreeSet<String>,
    /// The outputs that were read.
    given: BTreeSet<String>,
    /// The names of steps that were read.
    seen: BTreeSet<String>,
    /// The objects that steps apply in clusters, of those that were read.
    applied: Applied,
    placing: Vec<Placing<'a>>,
}

impl<'a> Reader<'_, 'a> {
    /// Names may be used before they are read.
    fn look_ahead(&mut self, entries: &[Node<'a>]) {
        let mut note = |entry: &Node<'a>, default: String| {
            let name = entry
                .value
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or(&default);
            let has_output = kind::has_output(entry);
            self.names.insert(name, has_output);
            let outputs = entry.value.get("outputs").and_then(Value::as_array);
            let outputs = outputs.into_iter().flatten();
            self.outputs
                .extend(outputs.filter_map(|output| Some(output.get("name")?.as_str()?.to_owned())));
            name.to_owned()
        };
        for (index, entry) in entries.iter().enumerate() {
            let name = note(entry, format!("step-{index}"));
            for (index, entry) in inner(entry).iter().enumerate() {
                note(entry, format!("{name}-{index}"));
            }
        }
    }

    fn step(&mut self, default_name: &str, node: &Node<'a>, may_be_group: bool) -> Option<ValidStep> {
        let object = node.object(if may_be_group { &STEP } else { &SUB_STEP })?;
        let name = match object.optional("name") {
            Some(node) => super::name(&node, "step name", &mut self.seen).map(str::to_owned),
            None => {
                if !self.seen.insert(default_name.to_owned()) {
                    node.refuse(format!(
                        "step name {default_name:?}, the default here, is used twice: give each step its own name"
                    ));
                }
                Some(default_name.to_owned())
            }
        };
        let type_node = object.required("type", &format!("use one of {}", kind::TYPES.join(", ")))?;
        let type_ = type_node.string()?;
        if type_ == "step-group" && !may_be_group {
            type_node.refuse("a step-group cannot be in another one: list its steps here");
            return None;
        }
        if !kind::TYPES.contains(&type_) {
            super::refuse_type(&type_node, type_, &kind::TYPES, &kind::KNOWN_ELSEWHERE);
            return None;
        }
        let in_clusters = kind::is_in_clusters(node);
        let inputs = step::inputs(&object, &self.names, &self.outputs);
        for (input, key) in &inputs {
            if let (Some(key), Some(node)) = (&input.key, key)
                && let Err(reason) = kind::takes(type_, in_clusters, key)
            {
                node.refuse(reason);
            }
        }
        let inputs: Vec<_> = inputs.into_iter().map(|(input, _)| input).collect();
        let scope = Scope {
            names: self.names.clone(),
            inputs: inputs.iter().map(|input| input.name.as_str()).collect(),
            keys: inputs.iter().filter_map(|input| input.key.clone()).collect(),
        };
        let condition = step::condition(&object, &scope);
        let timeout = object.optional("timeout").and_then(|node| step::duration(&node));
        let alias = step::alias(&object);
        let depends_on = depends_on(&object);
        if may_be_group && type_ != "step-group" {
            kind::refuse_group_fields(&object);
        }
        let mut kind = match type_ {
            "step-group" => self.group(&object, name.as_deref().unwrap_or(default_name)),
            _ => kind::read((type_, in_clusters), &object, self.policies, self.spec, &scope),
        };
        match &mut kind {
            Some(StepKind::ClusterObject(own)) => {
                let name = name.as_deref().unwrap_or(default_name);
                self.applied.read(name, &object, own, &inputs);
            }
            None if in_clusters => self.applied.unread(type_),
            _ => {}
        }
        // Where it is not known what a step does, its outputs are looked at all the same.
        let components = component::names(self.spec);
        let only = match &kind {
            Some(StepKind::Deploy(deploy)) => deploy.only.as_deref(),
            _ => None,
        };
        let single = match components.as_slice() {
            [component] => Some(*component),
            _ => None,
        };
        let origin = match type_ {
            _ if kind::places(type_) => Origin::Clusters(only.or(single)),
            // Of what is gone nobody reports anything.
            "delete-object" if in_clusters => Origin::Nothing,
            _ if in_clusters => Origin::Object,
            _ if kind::has_output(node) => Origin::Itself,
            _ => Origin::Nothing,
        };
        let outputs = step::outputs(&object, &scope, origin, &mut self.given);
        if let Some(StepKind::Deploy(deploy)) = &kind
            && deploy.references().next().is_none()
        {
            self.placing.push(Placing {
                name: name.clone().unwrap_or_else(|| default_name.to_owned()),
                spec: deploy.placement.clone(),
                only: deploy.only.clone(),
                at: object.optional("properties")?,
            });
        }
        Some(ValidStep {
            name: name?,
            type_: type_.to_owned(),
            alias,
            kind: kind?,
            condition,
            timeout,
            depends_on,
            inputs,
            outputs,
            referenced: Vec::new(),
        })
    }

    fn group(&mut self, object: &Object<'a>, name: &str) -> Option<StepKind> {
        if let Some(properties) = object.optional("properties")
            && !properties
                .value
                .as_object()
                .is_some_and(serde_json::Map::is_empty)
        {
            properties.refuse("a step-group has no properties: they are its steps'");
        }
        let mode = object.optional("mode").and_then(|node| node.word(&MODES));
        let mode = mode.unwrap_or(self.inner_mode);
        let list = object.required("subSteps", "list the steps of the group")?;
        let entries = list.list()?;
        if entries.is_empty() {
            list.refuse("is empty: list the steps of the group");
        }
        let steps: Vec<Option<ValidStep>> = entries
            .iter()
            .enumerate()
            .map(|(index, entry)| self.step(&format!("{name}-{index}"), entry, false))
            .collect();
        let whole = steps.iter().all(Option::is_some);
        let steps: Vec<ValidStep> = steps.into_iter().flatten().collect();
        if whole {
            check_order(&steps, mode, &entries, &list);
        }
        whole.then_some(StepKind::Group(GroupStep { mode, steps }))
    }
}

fn depends_on(step: &Object<'_>) -> Vec<String> {
    let list = step.optional("dependsOn");
    list.and_then(|list| list.strings()).unwrap_or_default()
}

/// Whether every step of a list can start at some time.
fn check_order(steps: &[ValidStep], mode: Mode, entries: &[Node<'_>], list: &Node<'_>) {
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    for (step, entry) in steps.iter().zip(entries) {
        let given = entry.value.get("dependsOn").unwrap_or(&Value::Null);
        let given = entry.child("dependsOn", given).list_if_any();
        for (name, node) in step.depends_on.iter().zip(&given) {
            if !names.contains(&name.as_str()) {
                let known = super::choice(name, names.iter().copied());
                node.refuse(format!("there is no step named {name:?} beside this one{known}"));
            }
        }
    }
    if let Some(circle) = cycle(&order(steps, mode)) {
        let named: Vec<&str> = circle
            .iter()
            .filter_map(|index| names.get(*index).copied())
            .collect();
        let first = named.first().copied().unwrap_or_default();
        let way = named.iter().skip(1).chain([&first]).copied().collect::<Vec<_>>();
        list.refuse(format!(
            "steps wait for one another: {first} waits for {}; steps wait for those under dependsOn, for those whose outputs \
             they use, a wait step for those under its steps, a delete-object step for those whose object it takes away, and without dependsOn, one after the other, for all before them",
            way.join(", which waits for ")
        ));
    }
}

/// Whether the steps that `wait` steps name have clusters to wait for.
fn check_waits(steps: &[ValidStep], entries: &[Node<'_>]) {
    let all = || {
        steps.iter().zip(entries).flat_map(|(step, entry)| {
            let inner = match &step.kind {
                StepKind::Group(group) => group.steps.as_slice(),
                _ => &[],
            };
            std::iter::once(step).chain(inner).map(move |step| (step, entry))
        })
    };
    for (step, entry) in all() {
        let StepKind::Wait(WaitStep::Fleet { steps: awaited, .. }) = &step.kind else {
            continue;
        };
        let named = all().filter(|(other, _)| awaited.contains(&other.name));
        for (other, _) in named.filter(|(other, _)| !matches!(other.kind, StepKind::Deploy(_))) {
            entry.refuse(format!(
                "step {} waits for the clusters of step {}, which has none: a step of type {} places nothing; name placing \
                 steps under steps",
                step.name, other.name, other.type_
            ));
        }
    }
}

/// Notes at each step what others name of its output.
fn note_references(steps: &mut [ValidStep]) {
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut note = |step: &ValidStep| {
        for reference in step.expressions().flat_map(|expression| expression.references()) {
            named
                .entry(reference.step.clone())
                .or_default()
                .insert(reference.path.clone());
        }
    };
    for step in &*steps {
        note(step);
        if let StepKind::Group(group) = &step.kind {
            group.steps.iter().for_each(&mut note);
        }
    }
    let put = |step: &mut ValidStep| {
        let mut paths = named.get(&step.name).cloned().unwrap_or_default();
        if step.type_ == ActionKind::Notification.as_str() {
            // Its next try has to know.
            paths.insert("sent".to_owned());
        }
        step.referenced = paths.into_iter().collect();
    };
    for step in steps {
        if let StepKind::Group(group) = &mut step.kind {
            group.steps.iter_mut().for_each(put);
        }
        put(step);
    }
}
