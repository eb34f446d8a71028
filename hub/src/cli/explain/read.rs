//! The application, the fleet and what was decided before: from a hub, or from files.

use super::{Args, Subject};
use crate::{
    cli::{
        Failure, hub, inventory,
        plan::last_taint,
        proposals::{self, Proposed},
    },
    explain::{Setting, Source, in_force},
    placement::ClusterFacts,
};
use jiff::Timestamp;
use roundhouse_api::{
    application::Violation,
    clock::{Clock, SystemClock},
    decision::Decision,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// Violations that are listed.
const VIOLATIONS: usize = 10;

/// Reads what is to be explained.
pub(super) async fn subject(args: &Args) -> Result<Subject, Failure> {
    let proposed = match args.files.is_empty() {
        true => None,
        false => Some(from_files(args)?),
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
    let spec = match proposed {
        Some(spec) => spec,
        None => known
            .snapshot
            .spec(&args.namespace, &args.application)
            .ok_or_else(|| no_application(args, &known.applications))?,
    };
    let stored = known.snapshot.decisions(&args.namespace, &args.application);
    of(args, &spec, known.snapshot.fleet(), &stored, now)
}

/// Puts together what is to be explained.
pub(super) fn of(
    args: &Args,
    spec: &Value,
    fleet: Vec<ClusterFacts>,
    stored: &BTreeMap<String, Arc<Decision>>,
    now: Timestamp,
) -> Result<Subject, Failure> {
    let (namespace, name) = (args.namespace.as_str(), args.application.as_str());
    let setting = Setting::of(namespace, name, spec, fleet, stored, now)
        .map_err(|violations| refused(args, &violations))?;
    let names: Vec<String> = setting.steps.iter().map(|step| step.name.clone()).collect();
    let steps = match &args.step {
        None => (0..names.len()).collect(),
        Some(wanted) => match names.iter().position(|name| name == wanted) {
            Some(step) => vec![step],
            None => {
                let failure = Failure::new(
                    "E-STEP",
                    format!("application {namespace}/{name} has no placing step {wanted}"),
                );
                return Err(failure
                    .because(format!("its placing steps are {}", hub::listed(&names)))
                    .advise("--step with one of them"));
            }
        },
    };
    Ok(Subject {
        source: Source::of(namespace, name, spec, &setting),
        decisions: in_force(setting.place(), stored),
        steps,
        setting,
    })
}

/// The `spec` of the Application of that name among the files.
fn from_files(args: &Args) -> Result<Value, Failure> {
    let asked = (args.namespace != DEFAULT_NAMESPACE).then_some(args.namespace.as_str());
    let proposed = proposals::read(&args.files, asked)?;
    let is_it = |one: &&Proposed| one.namespace == args.namespace && one.name == args.application;
    match proposed.iter().find(is_it) {
        Some(found) => Ok(found.spec().clone()),
        None => Err(no_application(
            args,
            &proposals::keys(&proposed).into_iter().collect::<Vec<_>>(),
        )),
    }
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

fn refused(args: &Args, violations: &[Violation]) -> Failure {
    let Args {
        application,
        namespace,
        ..
    } = args;
    let mut failure = Failure::new(
        "E-INVALID",
        format!("application {namespace}/{application} is not accepted"),
    );
    for violation in violations.iter().take(VIOLATIONS) {
        failure = failure.because(violation.clone());
    }
    if violations.len() > VIOLATIONS {
        failure = failure.because(format!("… and {} more", violations.len() - VIOLATIONS));
    }
    failure.advise("mend what is named; what runs of it stays as it is until then")
}
