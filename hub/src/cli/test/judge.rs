//! What came of a case, and whether that is what it expects.

use super::{
    case::{Case, Previous},
    expect::{Expect, Placement, Unplaced},
};
use crate::{
    cli::{
        Failure,
        plan::{last_taint, offline, plan_all},
        proposals::{self, Kind, Proposed},
        snapshot::Seen,
    },
    dispatch,
    placement::error_line,
    plan::{Action, ApplicationPlan},
    render,
};
use roundhouse_api::{
    bundle::ApplicationRef,
    decision::{Assignment, Decision, DecisionSpec, WorkloadDecision, WorkloadRef},
    names::decision_name,
    placement::Rule,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What came of a case.
#[derive(Debug)]
pub(super) enum Actual {
    /// Everything that can be expected of a plan; `errors` where overrides stop steps of it.
    Planned(Expect),
    /// The plan was refused with this message.
    Refused(String),
}

/// Plans the case.
///
/// # Errors
/// The case itself is wrong: `previous` names an Application, a step, a workload or a rule that cannot be.
pub(super) fn actual(case: &Case) -> Result<Actual, Failure> {
    let proposed = match proposals::of_documents(case.documents.clone(), None) {
        Ok(proposed) => proposed,
        Err(failure) => return Ok(Actual::Refused(failure.to_string())),
    };
    let mut seen = offline(&case.clusters);
    seen.snapshot.govern(case.rules.clone());
    remember(case, &proposed, &seen)?;
    let now = case.at.unwrap_or_else(|| last_taint(&case.clusters));
    Ok(match plan_all(&seen, &proposed, now) {
        Ok(plans) => {
            known(case, &plans, &seen)?;
            Actual::Planned(expectable(&plans))
        }
        Err(failure) => Actual::Refused(failure.to_string()),
    })
}

fn wrong(case: &Case, cause: String) -> Failure {
    Failure::new("E-TEST", format!("{}: previous cannot be", case.place))
        .because(cause)
        .advise("entries such as {step: step-0, workload: Deployment default/web, rule: rule-0, clusters: {c1: 3}}")
}

/// Looks whether the applications have every step, workload and rule that `previous` names: a wrong name would be as if
/// nothing had been there.
fn known(case: &Case, plans: &[ApplicationPlan], seen: &Seen) -> Result<(), Failure> {
    for entry in &case.previous {
        let is_own = |plan: &&ApplicationPlan| match &entry.application {
            Some(named) => *named == plan.title(),
            None => true,
        };
        let Some(plan) = plans.iter().find(is_own) else {
            continue;
        };
        let unknown = |what: String, known: Vec<String>| {
            let known = match known.is_empty() {
                true => "none".to_owned(),
                false => known.join(", "),
            };
            wrong(case, format!("{} has no {what} (known: {known})", plan.title()))
        };
        let steps = plan
            .valid
            .placing()
            .map(|(step, deploy)| (&step.name, &deploy.placement.placement));
        let steps: BTreeMap<&String, &Vec<Rule>> = steps.collect();
        let Some(rules) = steps.get(&entry.step) else {
            let names = steps.keys().map(|name| (*name).clone()).collect();
            return Err(unknown(format!("placing step {}", entry.step), names));
        };
        let mut rendered = render::render(&plan.namespace, &plan.name, &plan.valid);
        rendered.replica_paths = seen.snapshot.replica_paths(&plan.namespace);
        let workloads = render::workloads(&rendered);
        let workloads: Vec<String> = workloads.iter().map(|workload| named(&workload.key)).collect();
        if !workloads.contains(&entry.workload) {
            return Err(unknown(format!("workload {}", entry.workload), workloads));
        }
        let rules = rules.iter().enumerate();
        let rules: Vec<String> = rules.map(|(index, rule)| rule.name_or_index(index)).collect();
        if !rules.contains(&entry.rule) {
            let what = format!("rule {} in step {}", entry.rule, entry.step);
            return Err(unknown(what, rules));
        }
    }
    Ok(())
}

/// `Deployment default/web`.
fn named(workload: &WorkloadRef) -> String {
    format!("{} {}/{}", workload.kind, workload.namespace, workload.name)
}

/// Puts what was decided before into the snapshot.
fn remember(case: &Case, proposed: &[Proposed], seen: &Seen) -> Result<(), Failure> {
    let wrong = |cause| wrong(case, cause);
    let applications: Vec<String> = proposed
        .iter()
        .filter(|one| one.kind == Kind::Application)
        .map(|one| format!("{}/{}", one.namespace, one.name))
        .collect();
    let mut decisions: BTreeMap<(String, String), BTreeMap<WorkloadRef, Vec<Assignment>>> = BTreeMap::new();
    for entry in &case.previous {
        let application = application_of(entry, &applications).map_err(wrong)?;
        let workload = workload_of(&entry.workload).map_err(wrong)?;
        let step = decisions.entry((application, entry.step.clone())).or_default();
        let assignments = entry.clusters.iter().map(|(cluster, replicas)| Assignment {
            name: cluster.as_str().into(),
            rule: entry.rule.as_str().into(),
            replicas: *replicas,
            ..Assignment::default()
        });
        step.entry(workload).or_default().extend(assignments);
    }
    for ((application, step), workloads) in decisions {
        seen.snapshot
            .put_decision(decision(&application, step, workloads));
    }
    Ok(())
}

fn application_of(entry: &Previous, known: &[String]) -> Result<String, String> {
    match (&entry.application, known) {
        (Some(named), _) if known.contains(named) => Ok(named.clone()),
        (None, [only]) => Ok(only.clone()),
        (Some(named), _) => Err(format!(
            "there is no Application {named}: use one of {}",
            known.join(", ")
        )),
        (None, _) => Err(format!("application has to be one of {}", known.join(", "))),
    }
}

fn workload_of(text: &str) -> Result<WorkloadRef, String> {
    let parsed = text.split_once(' ').and_then(|(kind, rest)| {
        let (namespace, name) = rest.split_once('/')?;
        Some(WorkloadRef {
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    });
    parsed.ok_or_else(|| format!("workload {text:?} is not of the form `Deployment default/web`"))
}

fn decision(application: &str, step: String, workloads: BTreeMap<WorkloadRef, Vec<Assignment>>) -> Decision {
    let (namespace, name) = application.split_once('/').unwrap_or(("", application));
    let clusters: BTreeSet<String> = workloads
        .values()
        .flatten()
        .map(|row| row.name.to_string())
        .collect();
    let workloads = workloads.into_iter().map(|(workload, clusters)| {
        let replicas = clusters
            .iter()
            .map(|row| row.replicas)
            .fold(0, u32::saturating_add);
        WorkloadDecision {
            workload,
            replicas,
            placed: replicas,
            clusters,
            ..WorkloadDecision::default()
        }
    });
    let mut decision = Decision::new(
        &decision_name(name, &step),
        DecisionSpec {
            application_ref: ApplicationRef {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: String::new(),
            },
            step,
            workloads: workloads.collect(),
            clusters: clusters.into_iter().collect(),
            ..DecisionSpec::default()
        },
    );
    decision.metadata.namespace = Some(namespace.to_owned());
    decision
}

/// Everything that can be expected of these plans.
fn expectable(plans: &[ApplicationPlan]) -> Expect {
    let several = plans.len() > 1;
    let (mut placements, mut unplaced) = (Vec::new(), Vec::new());
    let mut bundles: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let stopped = plans.iter().flat_map(|plan| {
        let specs = plan.stopped();
        specs.flat_map(|spec| {
            let errors = spec.override_errors.iter();
            errors.map(|error| format!("{}: step {}: {}", plan.title(), spec.step, error_line(error)))
        })
    });
    let otherwise = plans.iter().flat_map(|plan| {
        let stops = plan.refused.iter();
        stops.map(|stop| format!("{}: {}: {}", plan.title(), stop.of, stop.why))
    });
    let stopped: Vec<String> = stopped.chain(otherwise).collect();
    for plan in plans {
        let application = several.then(|| plan.title());
        for decision in &plan.decisions {
            let shares = dispatch::shares(&[dispatch::Layer::of(true, &decision.spec)]);
            for workload in &decision.spec.workloads {
                let id = named(&workload.workload);
                // What the step runs there, not the sum of its rows: a duplicate rule does not add to what is divided.
                let runs = shares.iter().filter_map(|(cluster, share)| {
                    let part = share.replicas.get(&workload.workload)?;
                    (part.replicas > 0).then(|| (cluster.clone(), part.replicas))
                });
                placements.push(Placement {
                    application: application.clone(),
                    step: decision.spec.step.clone(),
                    workload: id.clone(),
                    clusters: runs.collect(),
                });
                unplaced.extend(workload.unplaced.iter().map(|none| Unplaced {
                    application: application.clone(),
                    step: decision.spec.step.clone(),
                    workload: id.clone(),
                    rule: none.rule.clone(),
                    count: none.count,
                    reason: none.reason.clone(),
                }));
            }
        }
        for bundle in plan
            .bundles
            .iter()
            .filter(|bundle| bundle.action != Action::Destroy)
        {
            let manifests = bundle.content.iter().flat_map(|content| content.manifests());
            bundles
                .entry(bundle.cluster.clone())
                .or_default()
                .extend(manifests.map(title));
        }
    }
    Expect {
        placements: Some(placements),
        unplaced: Some(unplaced),
        bundles: Some(bundles),
        errors: (!stopped.is_empty()).then_some(stopped),
    }
}

/// `Deployment default/web`.
fn title(manifest: &Value) -> String {
    let text = |pointer: &str| {
        manifest
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match text("/metadata/namespace") {
        "" => format!("{} {}", text("/kind"), text("/metadata/name")),
        namespace => format!("{} {namespace}/{}", text("/kind"), text("/metadata/name")),
    }
}

/// What is different, line by line: `-` expected, `+` there now. `None` if nothing is.
pub(super) fn compare(case: &Case, actual: &Actual) -> Option<String> {
    let mut text = String::new();
    let (expected, found) = match actual {
        Actual::Refused(message) => match &case.expect.errors {
            None => return Some(format!("the plan was refused:\n{message}\n")),
            Some(parts) => {
                // What is advised is no reason.
                let said = message.split("\ntry: ").next().unwrap_or(message);
                let missing = parts.iter().filter(|part| !said.contains(part.as_str()));
                text.extend(missing.map(|part| format!("- {part}\n")));
                // Nothing is placed, so whatever else is expected is missing.
                let expected = lines(&case.expect);
                if !text.is_empty() || !expected.is_empty() {
                    text.push_str(&format!("the plan was refused with:\n{message}\n"));
                }
                (expected, BTreeMap::new())
            }
        },
        Actual::Planned(found) => {
            match (&case.expect.errors, &found.errors) {
                (None, None) => {}
                (Some(parts), None) => {
                    text.extend(parts.iter().map(|part| format!("- refused: {part}\n")));
                    text.push_str("+ the plan was not refused\n");
                }
                (parts, Some(stopped)) => {
                    let is_said = |part: &&String| stopped.iter().any(|line| line.contains(part.as_str()));
                    let missing: Vec<&String> =
                        parts.iter().flatten().filter(|part| !is_said(part)).collect();
                    if parts.is_none() || !missing.is_empty() {
                        text.extend(missing.iter().map(|part| format!("- {part}\n")));
                        text.push_str("the plan is stopped:\n");
                        text.extend(stopped.iter().map(|line| format!("+ {line}\n")));
                    }
                }
            }
            (lines(&case.expect), lines(&only(&case.expect, found)))
        }
    };
    let sections: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    for section in sections {
        let none = BTreeSet::new();
        let (expected, found) = (
            expected.get(section).unwrap_or(&none),
            found.get(section).unwrap_or(&none),
        );
        if expected == found {
            continue;
        }
        text.push_str(&format!("{section}\n"));
        text.extend(expected.difference(found).map(|line| format!("  - {line}\n")));
        text.extend(found.difference(expected).map(|line| format!("  + {line}\n")));
    }
    (!text.is_empty()).then_some(text)
}

/// Of what is there, what the case looks at.
fn only(expect: &Expect, found: &Expect) -> Expect {
    Expect {
        placements: expect.placements.as_ref().and(found.placements.clone()),
        unplaced: expect.unplaced.as_ref().and(found.unplaced.clone()),
        bundles: expect.bundles.as_ref().and(found.bundles.clone()),
        errors: None,
    }
}

/// The lines of each section, as they are compared and shown.
fn lines(expect: &Expect) -> BTreeMap<String, BTreeSet<String>> {
    let mut lines: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let of = |application: &Option<String>| match application {
        Some(application) => format!("application {application}, "),
        None => String::new(),
    };
    for placement in expect.placements.iter().flatten() {
        let section = format!(
            "{}step {}, {}",
            of(&placement.application),
            placement.step,
            placement.workload
        );
        let own = lines.entry(section).or_default();
        let clusters = placement.clusters.iter().filter(|(_, replicas)| **replicas > 0);
        own.extend(clusters.map(|(cluster, replicas)| format!("{cluster}  {replicas}")));
        if own.is_empty() {
            own.insert("no cluster".to_owned());
        }
    }
    for none in expect.unplaced.iter().flatten() {
        let section = format!("{}step {}, {}", of(&none.application), none.step, none.workload);
        let rule = none
            .rule
            .as_deref()
            .map_or_else(|| "of no rule".to_owned(), |rule| format!("of {rule}"));
        let line = format!("unplaced  {} {rule}: {}", none.count, none.reason);
        lines.entry(section).or_default().insert(line);
    }
    for (cluster, objects) in expect.bundles.iter().flatten() {
        let own = lines.entry("bundles".to_owned()).or_default();
        own.insert(format!("{cluster}  {}", objects.join(", ")));
    }
    lines
}

/// What the case would have to expect to pass: of each section that it has.
pub(super) fn rewritten(case: &Case, actual: &Actual) -> Expect {
    match actual {
        Actual::Refused(message) => {
            let cause = message.lines().find_map(|line| line.strip_prefix("cause: "));
            Expect {
                errors: Some(vec![cause.unwrap_or(message).to_owned()]),
                ..Expect::default()
            }
        }
        Actual::Planned(found) => {
            let mut expect = only(&case.expect, found);
            expect.errors.clone_from(&found.errors);
            if expect.is_empty() {
                // It expected errors only.
                expect.placements.clone_from(&found.placements);
                expect.unplaced.clone_from(&found.unplaced);
            }
            expect
        }
    }
}
