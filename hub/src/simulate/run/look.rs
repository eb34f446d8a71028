//! Whether everything is delivered, and what waits if not.

use crate::{
    dispatch::{failure, removal::WINDOW},
    leader::Standing,
    simulate::Fleet,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client, Resource, ResourceExt};
use roundhouse_api::{
    application::{
        Application, ApplicationPhase, CLUSTERS_SEEN, DELETES_HELD, StepKind, StepPhase, validate,
    },
    bundle::{Bundle, BundlePhase},
    cluster::{AVAILABLE, Cluster},
    condition,
    placement::{Placement, Toleration},
};
use serde::de::DeserializeOwned;
use std::{collections::BTreeSet, fmt::Debug};

/// What waits for something; nothing if everything is delivered and everybody is there. Removals that wait for a person are
/// among it with `held_waits`.
pub(super) async fn waits(fleet: &Fleet, held_waits: bool) -> Vec<String> {
    let mut waits = match read(fleet, held_waits).await {
        Ok(waits) => waits,
        Err(error) => vec![format!("the hub's API server does not answer: {error}")],
    };
    let leads = |hub: &String| matches!(fleet.standing(hub), Some(Standing::Leading(_)));
    if !fleet.hubs().iter().any(leads) {
        waits.push("no hub leads".to_owned());
    }
    let away = fleet.members().into_iter().filter(|name| !fleet.runs_agent(name));
    waits.extend(away.map(|name| format!("the agent of {name} does not run")));
    waits
}

async fn read(fleet: &Fleet, held_waits: bool) -> Result<Vec<String>, kube::Error> {
    let (client, all) = (fleet.hub_client(), Default::default());
    let applications = Api::<Application>::all(client.clone()).list(&all).await?;
    let bundles = Api::<Bundle>::all(client.clone()).list(&all).await?;
    let clusters = Api::<Cluster>::all(client).list(&all).await?;
    let of_application = |one: &Application| application(one, held_waits);
    let mut waits: Vec<String> = applications.iter().filter_map(of_application).collect();
    waits.extend(bundles.iter().filter_map(bundle));
    waits.extend(clusters.iter().filter_map(cluster));
    Ok(waits)
}

fn application(application: &Application, held_waits: bool) -> Option<String> {
    let status = application.status.clone().unwrap_or_default();
    let seen = status.observed_generation == application.metadata.generation;
    let clusters = condition::get(&status.conditions, CLUSTERS_SEEN);
    let sees = clusters.is_none_or(|condition| condition.status == "True");
    let held = held_waits && condition::is_true(&status.conditions, DELETES_HELD);
    if seen && sees && !held && status.phase == Some(ApplicationPhase::Running) {
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
    // Of the others True is good.
    let is_wrong = |c: &&Condition| match c.type_ == DELETES_HELD {
        true => c.status == "True" || !c.message.is_empty(),
        false => c.status != "True" && !c.message.is_empty(),
    };
    let conditions = status.conditions.iter().filter(is_wrong);
    let conditions: Vec<String> = conditions
        .map(|c| format!("{} {}: {}", c.type_, c.reason, c.message))
        .collect();
    Some(format!(
        "application {}/{} is {phase}{unseen} [{}] {}",
        application.namespace().unwrap_or_default(),
        application.name_any(),
        steps.join(", "),
        conditions.join("; ")
    ))
}

/// When time alone moves an application on, by the clock of the hub: a step whose time is over, one that goes on by itself,
/// removals that count no more, and a taint that is tolerated no longer. An API server that does not answer says nothing of it.
pub(super) async fn timers(fleet: &Fleet) -> Vec<Timestamp> {
    let client = fleet.hub_client();
    let applications: Vec<Application> = all(&client).await;
    let clusters: Vec<Cluster> = all(&client).await;
    let placements: Vec<Placement> = all(&client).await;
    let tolerations = placements
        .iter()
        .flat_map(|placement| &placement.spec.0.tolerations);
    let referred: Vec<Toleration> = tolerations.cloned().collect();
    let tainted: BTreeSet<Timestamp> = clusters.iter().flat_map(tainted).collect();
    let timers = applications.iter();
    timers
        .flat_map(|application| timers_of(application, &referred, &tainted))
        .collect()
}

/// All objects of a kind, as far as they can be read.
async fn all<K>(client: &Client) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let all = Api::<K>::all(client.clone()).list(&Default::default()).await;
    all.map(|all| all.items).unwrap_or_default()
}

/// Since when a cluster has its taints, by what was written of them or was seen. Those of its status are tolerated for ever or not.
fn tainted(cluster: &Cluster) -> impl Iterator<Item = Timestamp> {
    let seen = cluster.status.iter().flat_map(|status| &status.taints_seen);
    let taints = cluster.spec.taints.iter().chain(seen);
    taints.filter_map(|taint| taint.time_added.as_ref().map(|time| time.0))
}

/// `referred`: what Placements tolerate, whoever refers to them.
fn timers_of(
    application: &Application,
    referred: &[Toleration],
    tainted: &BTreeSet<Timestamp>,
) -> Vec<Timestamp> {
    let spec = serde_json::to_value(&application.spec).unwrap_or_default();
    let (Ok(valid), Some(status)) = (validate(&spec), &application.status) else {
        return Vec::new();
    };
    let own = valid.all_steps().flat_map(|step| match &step.kind {
        StepKind::Deploy(deploy) => &deploy.placement.tolerations[..],
        StepKind::ClusterObject(object) => &object.placement.tolerations[..],
        _ => &[],
    });
    let tolerated: BTreeSet<i64> = own
        .chain(referred)
        .filter_map(|toleration| toleration.toleration_seconds)
        .collect();
    let tolerated = tolerated.iter().flat_map(|seconds| {
        let tolerated = SignedDuration::from_secs(*seconds);
        tainted
            .iter()
            .filter_map(move |since| since.checked_add(tolerated).ok())
    });
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
    steps.chain(removals).chain(tolerated).collect()
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
            "is reported at generation {reported}: {}",
            match (status.phase, counts.failed) {
                (Some(BundlePhase::Failed), _) | (_, 1..) => failure(&status),
                _ => format!("{} of {} applied", counts.applied, counts.total),
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(minute: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute)
    }

    /// Steps of a run that began, and when: each with its properties.
    fn application(steps: &[(Value, i64)]) -> Application {
        let said: Vec<&Value> = steps.iter().map(|(step, _)| step).collect();
        let running = steps.iter().map(|(step, began)| {
            json!({"name": step["name"], "type": step["type"], "phase": "running",
                "firstExecuteTime": at(*began).to_string()})
        });
        let running: Vec<Value> = running.collect();
        let object = json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"components": [{"name": "web", "type": "worker", "properties": {"image": "nginx:1"}}],
                "workflow": {"steps": said}},
            "status": {"workflow": {"appRevision": "web-v1", "generation": 1, "steps": running}}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_is_held_for_a_person_waits_and_what_is_not_held_does_not() {
        let of = |phase: &str, held: &str, reason: &str, message: &str| {
            let condition = |type_: &str, status: &str, reason: &str, message: &str| {
                json!({"type": type_, "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let delivered = if phase == "running" { "True" } else { "False" };
            let mut app = super::tests::application(&[]);
            app.status = serde_json::from_value(json!({"phase": phase, "conditions": [
                condition("Delivered", delivered, "NotReady", "6/8 clusters ready"),
                condition("Overcommitted", "False", "WithinReplicas", ""),
                condition("DeletesHeld", held, reason, message)]}))
            .unwrap();
            app
        };
        let asks = of(
            "running",
            "True",
            "ConfirmationNeeded",
            "3 clusters would lose it",
        );
        assert_eq!(
            super::application(&asks, true).unwrap(),
            "application default/web is Running [] DeletesHeld ConfirmationNeeded: 3 clusters would lose it"
        );
        // Unless whoever wrote the script looks for itself.
        assert_eq!(super::application(&asks, false), None);
        let nothing = of("running", "False", "NothingHeld", "");
        assert_eq!(super::application(&nothing, true), None);
        for (held, message, told) in [
            ("False", "", ""),
            ("False", "c1 keeps it", "; DeletesHeld why: c1 keeps it"),
            ("True", "c1 would lose it", "; DeletesHeld why: c1 would lose it"),
        ] {
            let waits = super::application(&of("unhealthy", held, "why", message), true).unwrap();
            let expected = format!(
                "application default/web is Unhealthy [] Delivered NotReady: 6/8 clusters ready{told}"
            );
            assert_eq!(waits, expected);
        }
    }

    #[test]
    fn what_time_alone_moves_on_is_told() {
        let deploy = |tolerations: Value| {
            json!({"name": "all", "type": "deploy", "properties": {
                "placement": [{"replicas": "100%"}], "tolerations": tolerations}})
        };
        let cluster = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "c1"},
            "spec": {"accepted": true, "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": at(10).to_string()}]},
            "status": {"taintsSeen": [{"key": "b", "effect": "NoExecute", "timeAdded": at(20).to_string()}],
                "taints": [{"key": "c", "effect": "NoSchedule", "timeAdded": at(30).to_string()}]}});
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let tainted: BTreeSet<Timestamp> = tainted(&cluster).collect();
        let tolerates = json!([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}, {"key": "b", "operator": "Exists"}]);
        let suspended =
            json!({"name": "gate", "type": "suspend", "timeout": "1h", "properties": {"duration": "5m"}});
        for (steps, expected) in [
            (vec![(deploy(json!([])), 0)], vec![]),
            (vec![(deploy(tolerates), 0)], vec![at(15), at(25)]),
            (
                vec![(suspended, 30), (deploy(json!([])), 0)],
                vec![at(90), at(35)],
            ),
        ] {
            assert_eq!(
                timers_of(&application(&steps), &[], &tainted),
                expected,
                "{steps:?}"
            );
        }
        let referred = Toleration {
            toleration_seconds: Some(60),
            ..Toleration::default()
        };
        let placed = application(&[(deploy(json!([])), 0)]);
        assert_eq!(timers_of(&placed, &[referred], &tainted), [at(11), at(21)]);
    }
}
