//! The application, the fleet and what was decided before: from a hub, or from files.

use super::{Args, Subject};
use crate::{
    cli::{Failure, documents, hub, inventory},
    explain::{Setting, Source, in_force},
    placement::ClusterFacts,
};
use roundhouse_api::{
    application::Violation,
    clock::{Clock, SystemClock},
    decision::Decision,
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// Violations that are listed.
const VIOLATIONS: usize = 10;

/// Reads what is to be explained.
pub(super) async fn subject(args: &Args) -> Result<Subject, Failure> {
    let proposed = match args.files.is_empty() {
        true => None,
        false => Some(from_files(args)?),
    };
    let known = match &args.inventory {
        Some(file) => {
            let mut known = hub::Known::default();
            for cluster in inventory::read(file)? {
                known.snapshot.put_cluster(&cluster);
                known.clusters.push(cluster);
            }
            known
        }
        None => hub::read_decided(&hub::connect(args.kubeconfig.as_deref()).await?).await?,
    };
    let spec = match proposed {
        Some(spec) => spec,
        None => known
            .snapshot
            .spec(&args.namespace, &args.application)
            .ok_or_else(|| no_application(args, &known.applications))?,
    };
    let stored = known.snapshot.decisions(&args.namespace, &args.application);
    of(args, &spec, known.snapshot.fleet(), &stored)
}

/// Puts together what is to be explained.
pub(super) fn of(
    args: &Args,
    spec: &Value,
    fleet: Vec<ClusterFacts>,
    stored: &BTreeMap<String, Arc<Decision>>,
) -> Result<Subject, Failure> {
    let (namespace, name) = (args.namespace.as_str(), args.application.as_str());
    let now = SystemClock.now();
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
    let mut others = Vec::new();
    for document in documents::read(&args.files)? {
        let text = |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str);
        if text("/kind") != Some("Application") {
            continue;
        }
        let name = text("/metadata/name").unwrap_or_default();
        let namespace = text("/metadata/namespace").unwrap_or("default");
        if (namespace, name) == (args.namespace.as_str(), args.application.as_str()) {
            return Ok(document.value.get("spec").cloned().unwrap_or_default());
        }
        others.push((namespace.to_owned(), name.to_owned()));
    }
    Err(no_application(args, &others))
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
