//! The application, the fleet and what was decided before: from a hub, or from files.

use super::{Args, Ended, Leaving, Subject};
use crate::{
    application::{Foreseen, Proposal, Snapshot, Unforeseen, foresee},
    cli::{
        Failure, documents, hub, inventory,
        plan::last_taint,
        proposals::{self, Kind, Proposed},
        tenancy,
    },
    dispatch::{Observed, removal::is_refused},
    explain::{Hold, InForce, Setting, Source, holding, in_force},
    render::{self, Rendered},
};
use jiff::Timestamp;
use roundhouse_api::{
    application::validate,
    clock::{Clock, SystemClock},
    decision::{Decision, DecisionSpec},
    names::label,
    placement::{PlacementSpec, Rule},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// Violations that are listed.
const VIOLATIONS: usize = 10;

/// Reads what is to be explained.
pub(super) async fn subject(args: &Args) -> Result<Subject, Failure> {
    let asked = (args.namespace != DEFAULT_NAMESPACE).then_some(args.namespace.as_str());
    documents::stdin_once(args.files.iter().chain(&args.inventory))?;
    let mut documents = match args.files.is_empty() {
        true => Vec::new(),
        false => documents::read(&args.files)?,
    };
    let rules = (args.tenancy.filter(|_| args.inventory.is_some()))
        .map(|tenancy| tenancy::of_documents(tenancy, &mut documents));
    let proposed = proposals::of_documents(documents, asked)?;
    let (known, now) = match &args.inventory {
        Some(file) => {
            let clusters = inventory::read(file)?;
            let now = last_taint(&clusters);
            let mut known = hub::Known::default();
            known.snapshot.govern(rules.unwrap_or_default());
            clusters
                .iter()
                .for_each(|cluster| known.snapshot.put_cluster(cluster));
            (known, now)
        }
        None => {
            let client = hub::connect(args.kubeconfig.as_deref()).await?;
            let mut known = hub::read_decided(&client).await?;
            let namespaces = BTreeSet::from([&args.namespace]);
            if let Some(rules) = tenancy::of_hub(&client, args.tenancy, namespaces).await? {
                known.snapshot.govern(rules);
            }
            hub::read_own(&client, &known.snapshot, &args.namespace, &args.application).await?;
            (known, SystemClock.now())
        }
    };
    let spec = match args.files.is_empty() {
        true => known.snapshot.spec(&args.namespace, &args.application),
        false => propose(&known.snapshot, &proposed, args)?,
    };
    let there = match args.files.is_empty() {
        true => known.applications,
        false => proposals::keys(&proposed, Kind::Application)
            .into_iter()
            .collect(),
    };
    let spec = spec.ok_or_else(|| no_application(args, &there))?;
    of(args, &spec, &known.snapshot, now)
}

/// Takes the Placements and ComponentDefinitions of the files in; returns the `spec` of the Application of that name among them.
pub(super) fn propose(
    snapshot: &Snapshot,
    proposed: &[Proposed],
    args: &Args,
) -> Result<Option<Value>, Failure> {
    for one in proposed {
        let unread = |error| Failure::new("E-INPUT", format!("{} does not read", one.place)).because(error);
        let object = one.object.clone();
        match one.kind {
            Kind::Application => {}
            Kind::Placement => snapshot.put_placement(serde_json::from_value(object).map_err(unread)?),
            Kind::ComponentDefinition => {
                snapshot.put_definition(&serde_json::from_value(object).map_err(unread)?);
            }
        }
    }
    let is_it = |one: &&Proposed| {
        one.kind == Kind::Application && one.namespace == args.namespace && one.name == args.application
    };
    Ok(proposed.iter().find(is_it).map(|found| found.spec().clone()))
}

/// Puts together what is to be explained.
pub(super) fn of(args: &Args, spec: &Value, snapshot: &Snapshot, now: Timestamp) -> Result<Subject, Failure> {
    let (namespace, name) = (args.namespace.as_str(), args.application.as_str());
    let proposal = Proposal {
        namespace,
        name,
        spec,
    };
    let stored = snapshot.decisions(namespace, name);
    let foreseen = match foresee(snapshot, &proposal, now) {
        Ok(foreseen) => foreseen,
        // What was decided before stays in force.
        Err(Unforeseen::Unresolved(why)) if !stored.is_empty() => {
            return waiting(args, spec, snapshot, &why.to_string(), now);
        }
        Err(why) => return Err(refused(args, why)),
    };
    let leaving = leaving(&foreseen, snapshot);
    let ended = foreseen.stopped.then(|| Ended::of(&foreseen, &stored));
    let valid = foreseen.valid;
    let mut rendered = render::render(namespace, name, &valid);
    rendered.replica_paths = foreseen.replica_paths;
    let setting = Setting::of(
        format!("{namespace}/{name}"),
        (&foreseen.revision, &foreseen.passed),
        &valid,
        &rendered,
        snapshot.fleet(),
        &stored,
        now,
    );
    let decided = foreseen.decisions.into_iter().map(|decision| decision.spec);
    let held = decided.filter(|decision| !decision.override_errors.is_empty());
    let held = held.map(|decision| {
        let hold = Hold::Overrides(holding(&decision));
        (decision.step.clone(), (hold, decision))
    });
    Ok(Subject {
        held: held.collect(),
        ended,
        unresolved: false,
        leaving,
        source: Source::of(namespace, name, spec, &valid, &rendered.replica_paths),
        decisions: in_force(setting.place(), &stored),
        steps: steps(args, &setting)?,
        setting,
    })
}

/// The places of the steps that are asked for.
fn steps(args: &Args, setting: &Setting) -> Result<Vec<usize>, Failure> {
    let names: Vec<String> = setting.steps.iter().map(|step| step.name.clone()).collect();
    let Some(wanted) = &args.step else {
        return Ok((0..names.len()).collect());
    };
    match names.iter().position(|name| name == wanted) {
        Some(step) => Ok(vec![step]),
        None => {
            let (namespace, name) = (&args.namespace, &args.application);
            let what = format!("application {namespace}/{name} has no placing step {wanted}");
            Err(Failure::new("E-STEP", what)
                .because(format!("its placing steps are {}", hub::listed(&names)))
                .advise("--step with one of them"))
        }
    }
}

/// An application whose Placements cannot be used: every step keeps what was decided before.
fn waiting(
    args: &Args,
    spec: &Value,
    snapshot: &Snapshot,
    why: &str,
    now: Timestamp,
) -> Result<Subject, Failure> {
    let (namespace, name) = (args.namespace.as_str(), args.application.as_str());
    let valid = validate(spec).map_err(|violations| refused(args, Unforeseen::Refused(violations)))?;
    let stored = snapshot.decisions(namespace, name);
    let title = format!("{namespace}/{name}");
    let mut setting = Setting::of(
        title,
        ("", &[]),
        &valid,
        &Rendered::default(),
        snapshot.fleet(),
        &stored,
        now,
    );
    let mut held = BTreeMap::new();
    let mut decisions = Vec::new();
    for step in &mut setting.steps {
        let decision = stored.get(&step.name).map(|decision| decision.spec.clone());
        let decision = decision.unwrap_or_else(|| DecisionSpec {
            step: step.name.clone(),
            ..DecisionSpec::default()
        });
        step.spec = PlacementSpec {
            placement: rules_of(&decision),
            ..PlacementSpec::default()
        };
        decisions.push(InForce::kept(&decision));
        held.insert(step.name.clone(), (Hold::Placement(why.to_owned()), decision));
    }
    Ok(Subject {
        held,
        ended: None,
        unresolved: true,
        leaving: BTreeMap::new(),
        source: Source::default(),
        decisions,
        steps: steps(args, &setting)?,
        setting,
    })
}

/// The rules of a decision by name: what they say otherwise is not known.
fn rules_of(decision: &DecisionSpec) -> Vec<Rule> {
    let rules = decision
        .workloads
        .first()
        .into_iter()
        .flat_map(|first| &first.rules);
    let named = rules.filter_map(|total| total.rule.clone());
    let rule = |name| Rule {
        name: Some(name),
        ..Rule::default()
    };
    named.map(rule).collect()
}

impl Ended {
    fn of(foreseen: &Foreseen, stored: &BTreeMap<String, Arc<Decision>>) -> Ended {
        let begun = foreseen.passed.iter();
        let begun = begun.filter_map(|step| Some((step.clone(), stored.get(step)?.spec.clone())));
        let runs = foreseen.observed.iter().filter_map(|(cluster, bundles)| {
            let step = bundles.first()?.labels.get(label::STEP)?.clone();
            let replicas = bundles.iter().map(|bundle| bundle.replicas).sum();
            Some((cluster.clone(), (step, replicas)))
        });
        Ended {
            begun: begun.collect(),
            runs: runs.collect(),
        }
    }
}

/// The clusters that are to lose the application, and what keeps it there.
fn leaving(foreseen: &Foreseen, snapshot: &Snapshot) -> BTreeMap<String, Leaving> {
    let goes = |bundle: &Arc<Observed>| {
        let surplus = foreseen.plan.surplus.iter();
        surplus
            .clone()
            .any(|(namespace, name)| (namespace, name) == (&bundle.namespace, &bundle.name))
    };
    let fleet = snapshot.fleet();
    let is_out_of_reach = |cluster: &str| {
        let facts = fleet.iter().find(|facts| facts.name == cluster);
        facts.is_some_and(|facts| facts.joined && !facts.reachable)
    };
    let observed = foreseen.observed.iter();
    let losing = observed.filter(|(_, bundles)| bundles.iter().all(goes));
    losing
        .filter_map(|(cluster, bundles)| {
            let first = bundles.first()?;
            let waits = bundles
                .iter()
                .any(|bundle| bundle.spec.deletion.is_none() || is_refused(bundle));
            let hold = match foreseen.held.as_ref().filter(|_| waits) {
                // Nothing goes, and no confirmation is asked for.
                _ if foreseen.stopped => Hold::RunEnded,
                Some(why) => Hold::Removal(why.clone()),
                None if is_out_of_reach(cluster) => Hold::RemovalOutOfReach,
                None => return None,
            };
            let leaving = Leaving {
                step: first.labels.get(label::STEP).cloned().unwrap_or_default(),
                replicas: bundles.iter().map(|bundle| bundle.replicas).sum(),
                hold,
            };
            Some((cluster.clone(), leaving))
        })
        .collect()
}

fn no_application(args: &Args, there: &[(String, String)]) -> Failure {
    let Args {
        application,
        namespace,
        ..
    } = args;
    let names: Vec<String> = there
        .iter()
        .map(|(namespace, name)| format!("{namespace}/{name}"))
        .collect();
    let failure = Failure::new(
        "E-APPLICATION",
        format!("there is no application {namespace}/{application}"),
    );
    match names.is_empty() {
        true => failure
            .because("there are no applications at all")
            .advise(match args.files.is_empty() {
                true => "another --kubeconfig, of the right hub",
                false => "other files with -f",
            }),
        false => failure
            .because(format!("the applications are {}", hub::listed(&names)))
            .advise("one of them, with -n for its namespace"),
    }
}

fn refused(args: &Args, why: Unforeseen) -> Failure {
    let Args {
        application,
        namespace,
        ..
    } = args;
    let title = format!("{namespace}/{application}");
    let violations = match why {
        Unforeseen::Unresolved(unresolved) => {
            return Failure::new(
                "E-UNRESOLVED",
                format!("application {title} waits for a Placement"),
            )
            .because(unresolved)
            .advise("the Placement, in the hub or among the files of -f");
        }
        Unforeseen::Refused(violations) => violations,
    };
    let mut failure = Failure::new("E-INVALID", format!("application {title} is not accepted"));
    for violation in violations.iter().take(VIOLATIONS) {
        failure = failure.because(violation.clone());
    }
    if violations.len() > VIOLATIONS {
        failure = failure.because(format!("… and {} more", violations.len() - VIOLATIONS));
    }
    failure.advise("mend what is named; what runs of it stays as it is until then")
}
