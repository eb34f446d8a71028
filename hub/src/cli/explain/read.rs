//! The application, the fleet and what was decided before: from a hub, or from files.

use super::{Args, Subject};
use crate::{
    application::{Proposal, Snapshot, Unforeseen, foresee},
    cli::{
        Failure, documents, hub, inventory,
        plan::last_taint,
        proposals::{self, Kind, Proposed},
    },
    explain::{Setting, Source, in_force},
    render,
};
use jiff::Timestamp;
use roundhouse_api::clock::{Clock, SystemClock};
use serde_json::Value;

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// Violations that are listed.
const VIOLATIONS: usize = 10;

/// Reads what is to be explained.
pub(super) async fn subject(args: &Args) -> Result<Subject, Failure> {
    let asked = (args.namespace != DEFAULT_NAMESPACE).then_some(args.namespace.as_str());
    documents::stdin_once(args.files.iter().chain(&args.inventory))?;
    let proposed = match args.files.is_empty() {
        true => Vec::new(),
        false => proposals::read(&args.files, asked)?,
    };
    let (known, now) = match &args.inventory {
        Some(file) => {
            let clusters = inventory::read(file)?;
            let now = last_taint(&clusters);
            let known = hub::Known::default();
            clusters
                .iter()
                .for_each(|cluster| known.snapshot.put_cluster(cluster));
            (known, now)
        }
        None => {
            let client = hub::connect(args.kubeconfig.as_deref()).await?;
            (hub::read_decided(&client).await?, SystemClock.now())
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
    let foreseen = foresee(snapshot, &proposal, now).map_err(|why| refused(args, why))?;
    let valid = foreseen.valid;
    let stored = snapshot.decisions(namespace, name);
    let mut rendered = render::render(namespace, name, &valid);
    rendered.replica_paths = foreseen.replica_paths;
    let workloads = render::workloads(&rendered);
    let title = format!("{namespace}/{name}");
    let setting = Setting::of(title, &valid, workloads, snapshot.fleet(), &stored, now);
    let names: Vec<String> = setting.steps.iter().map(|step| step.name.clone()).collect();
    let steps = match &args.step {
        None => (0..names.len()).collect(),
        Some(wanted) => match names.iter().position(|name| name == wanted) {
            Some(step) => vec![step],
            None => {
                let what = format!("application {namespace}/{name} has no placing step {wanted}");
                return Err(Failure::new("E-STEP", what)
                    .because(format!("its placing steps are {}", hub::listed(&names)))
                    .advise("--step with one of them"));
            }
        },
    };
    let decided = foreseen.decisions.into_iter().map(|decision| decision.spec);
    let held = decided.filter(|decision| !decision.override_errors.is_empty());
    Ok(Subject {
        held: held.map(|decision| (decision.step.clone(), decision)).collect(),
        source: Source::of(namespace, name, spec, &valid, &rendered.replica_paths),
        decisions: in_force(setting.place(), &stored),
        steps,
        setting,
    })
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
