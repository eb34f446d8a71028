//! Whether everything is delivered, and what waits if not.

use crate::{dispatch::removal::WINDOW, leader::Standing, simulate::Fleet};
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use roundhouse_api::{
    application::{Application, ApplicationPhase, CLUSTERS_SEEN, StepKind, StepPhase, validate},
    bundle::Bundle,
    cluster::{AVAILABLE, Cluster},
    condition,
};

/// As many things that wait are named.
const NAMED: usize = 8;

/// What waits for something; nothing if everything is delivered and everybody is there.
pub(super) async fn waits(fleet: &Fleet) -> Vec<String> {
    let mut waits = match read(fleet).await {
        Ok(waits) => waits,
        Err(error) => vec![format!("the hub's API server does not answer: {error}")],
    };
    let leads = |hub: &String| matches!(fleet.standing(hub), Some(Standing::Leading(_)));
    if !fleet.hubs().iter().any(leads) {
        waits.push("no hub leads".to_owned());
    }
    let away = fleet.members().into_iter().filter(|name| !fleet.runs_agent(name));
    waits.extend(away.map(|name| format!("the agent of {name} does not run")));
    if waits.len() > NAMED {
        let more = waits.len() - NAMED;
        waits.truncate(NAMED);
        waits.push(format!("and {more} more"));
    }
    waits
}

async fn read(fleet: &Fleet) -> Result<Vec<String>, kube::Error> {
    let (client, all) = (fleet.hub_client(), Default::default());
    let applications = Api::<Application>::all(client.clone()).list(&all).await?;
    let bundles = Api::<Bundle>::all(client.clone()).list(&all).await?;
    let clusters = Api::<Cluster>::all(client).list(&all).await?;
    let mut waits: Vec<String> = applications.iter().filter_map(application).collect();
    waits.extend(bundles.iter().filter_map(bundle));
    waits.extend(clusters.iter().filter_map(cluster));
    Ok(waits)
}

fn application(application: &Application) -> Option<String> {
    let status = application.status.clone().unwrap_or_default();
    let seen = status.observed_generation == application.metadata.generation;
    let clusters = condition::get(&status.conditions, CLUSTERS_SEEN);
    let sees = clusters.is_none_or(|condition| condition.status == "True");
    if seen && sees && status.phase == Some(ApplicationPhase::Running) {
        return None;
    }
    let steps = status.workflow.iter().flat_map(|workflow| workflow.all_steps());
    let steps: Vec<String> = steps
        .map(|step| format!("{} {:?}", step.name, step.phase))
        .collect();
    let phase = status
        .phase
        .map_or("new".to_owned(), |phase| format!("{phase:?}"));
    let unseen = if seen {
        ""
    } else {
        ", its newest spec is not looked at"
    };
    let conditions = status
        .conditions
        .iter()
        .filter(|condition| condition.status != "True");
    let conditions: Vec<String> = conditions
        .map(|c| format!("{} {}: {}", c.type_, c.reason, c.message))
        .collect();
    Some(format!(
        "application {} is {phase}{unseen} [{}] {}",
        application.name_any(),
        steps.join(", "),
        conditions.join("; ")
    ))
}

/// When time alone moves an application on, by the clock of the hub: a step whose time is over, one that goes on by itself, and
/// removals that count no more. An API server that does not answer says nothing of it.
pub(super) async fn timers(fleet: &Fleet) -> Vec<Timestamp> {
    let all = Api::<Application>::all(fleet.hub_client())
        .list(&Default::default())
        .await;
    let applications = all.map(|all| all.items).unwrap_or_default();
    applications.iter().flat_map(timers_of).collect()
}

fn timers_of(application: &Application) -> Vec<Timestamp> {
    let spec = serde_json::to_value(&application.spec).unwrap_or_default();
    let (Ok(valid), Some(status)) = (validate(&spec), &application.status) else {
        return Vec::new();
    };
    let steps = status.workflow.iter().flat_map(|workflow| workflow.all_steps());
    let at_work = steps.filter(|step| matches!(step.phase, StepPhase::Running | StepPhase::Suspending));
    let steps = at_work.flat_map(|step| {
        let is = valid.all_steps().find(|valid| valid.name == step.name);
        let goes_on = is.and_then(|valid| match &valid.kind {
            StepKind::Suspend(suspend) => suspend.duration,
            _ => None,
        });
        let after = [is.and_then(|valid| valid.timeout), goes_on]
            .into_iter()
            .flatten();
        let since = step.first_execute_time.as_ref().map(|time| time.0);
        after.filter_map(move |after| since?.checked_add(after).ok())
    });
    let removals = status.removals.iter().flat_map(|removals| &removals.moments);
    let removals = removals.filter_map(|moment| moment.at.as_ref()?.0.checked_add(WINDOW).ok());
    let removals = removals.filter(|_| status.held_deletes.is_some());
    steps.chain(removals).collect()
}

fn bundle(bundle: &Bundle) -> Option<String> {
    let name = format!(
        "bundle {}/{}",
        bundle.namespace().unwrap_or_default(),
        bundle.name_any()
    );
    if bundle.metadata.deletion_timestamp.is_some() {
        return Some(format!("{name} is being removed"));
    }
    let status = bundle.status.clone().unwrap_or_default();
    let counts = status.counts.unwrap_or_default();
    let done = counts.applied == counts.total && counts.failed == 0;
    let generation = bundle.metadata.generation.unwrap_or_default();
    if let Some(ignored) = status.ignores(generation) {
        return Some(format!("{name} is ignored: {}", ignored.message));
    }
    if status.observed_generation == bundle.metadata.generation && done {
        return None;
    }
    let reported = match status.observed_generation {
        None => "is not reported yet".to_owned(),
        Some(reported) => format!(
            "is reported at generation {reported}: {} of {} applied, {} failed",
            counts.applied, counts.total, counts.failed
        ),
    };
    Some(format!("{name} at generation {generation} {reported}"))
}

fn cluster(cluster: &Cluster) -> Option<String> {
    if cluster.metadata.deletion_timestamp.is_some() {
        return Some(format!("cluster {} leaves", cluster.name_any()));
    }
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    if condition::is_true(conditions, AVAILABLE) {
        let status = cluster.status.as_ref();
        let is_known = status.is_some_and(|status| status.agent_version.is_some());
        return (!is_known).then(|| format!("cluster {} has not said what it is", cluster.name_any()));
    }
    let why = condition::get(conditions, AVAILABLE).map(|c| c.reason.clone());
    Some(format!(
        "cluster {} is not available: {}",
        cluster.name_any(),
        why.unwrap_or_default()
    ))
}
