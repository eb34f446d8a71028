//! What tests look at of applications and their Bundles.

use crate::looks::because;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use roundhouse_api::{
    application::{Application, ApplicationPhase, ApplicationStatus, DELETES_HELD, StepPhase, StepReason},
    bundle::Bundle,
    condition,
    names::{ClusterName, annotation},
};
use roundhouse_hub::simulate::{Fleet, run::Look};
use serde_json::{Value, json};

/// Something that is so about an application's status.
pub(crate) fn application(
    name: &'static str,
    is_so: impl Fn(&ApplicationStatus) -> bool + Send + Sync + Copy + 'static,
) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
            let found = api.get(name).await.map_err(|error| error.to_string())?;
            let status = found.status.unwrap_or_default();
            is_so(&status).then_some(()).ok_or_else(|| short(&status))
        })
    })
}

fn short(status: &ApplicationStatus) -> String {
    let conditions: Vec<String> = status.conditions.iter().map(in_short).collect();
    let steps: Vec<_> = status.workflow.iter().flat_map(|run| run.all_steps()).collect();
    let steps: Vec<String> = steps
        .iter()
        .map(|step| format!("{} {:?} {:?}", step.name, step.phase, step.message))
        .collect();
    format!(
        "{:?}; {}; {}",
        status.phase,
        conditions.join("; "),
        steps.join("; ")
    )
}

fn in_short(condition: &Condition) -> String {
    let Condition {
        type_,
        status,
        reason,
        message,
        ..
    } = condition;
    format!("{type_} {status} {reason}: {message}")
}

/// An application is gone.
pub(crate) fn gone(name: &'static str) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
            let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
            found.map_or(Ok(()), |found| Err(short(&found.status.unwrap_or_default())))
        })
    })
}

/// An application runs everywhere.
pub(crate) fn runs(name: &'static str) -> Look {
    application(name, |status| status.phase == Some(ApplicationPhase::Running))
}

/// The phase of a step.
pub(crate) fn step_is(status: &ApplicationStatus, step: &str, phase: StepPhase) -> bool {
    let run = status.workflow.as_ref();
    run.and_then(|run| run.step(step))
        .is_some_and(|found| found.phase == phase)
}

/// A step has failed for this reason.
pub(crate) fn step_failed(status: &ApplicationStatus, step: &str, reason: StepReason) -> bool {
    let run = status.workflow.as_ref().and_then(|run| run.step(step));
    run.is_some_and(|step| step.phase == StepPhase::Failed && step.reason == Some(reason))
}

/// A step of an application is in one of these phases, of a run of the newest spec.
pub(crate) fn step(application: &'static str, step: &'static str, phases: &'static [StepPhase]) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
            let app = api.get(application).await.map_err(|error| error.to_string())?;
            let generation = app.metadata.generation;
            let status = app.status.unwrap_or_default();
            let workflow = status.workflow.unwrap_or_default();
            because(workflow.generation == generation, || {
                format!(
                    "the run is of generation {:?}, not {generation:?}",
                    workflow.generation
                )
            })?;
            let found = workflow.all_steps().find(|s| s.name == step).map(|s| s.phase);
            because(found.is_some_and(|phase| phases.contains(&phase)), || {
                format!("step {step} is {found:?}")
            })
        })
    })
}

/// Something that is so about the Bundle of an application on a cluster.
pub(crate) fn bundle(
    cluster: &str,
    name: &'static str,
    is_so: impl Fn(&Bundle) -> bool + Send + Sync + Copy + 'static,
) -> Look {
    let namespace = ClusterName::new(cluster).unwrap().namespace();
    Look::new(move |fleet| {
        let namespace = namespace.clone();
        Box::pin(async move {
            let api: Api<Bundle> = Api::namespaced(fleet.hub_client(), &namespace);
            let found = api.get(name).await.map_err(|error| error.to_string())?;
            is_so(&found).then_some(()).ok_or_else(|| {
                format!(
                    "generation {:?}, {}",
                    found.metadata.generation,
                    json!(found.status)
                )
            })
        })
    })
}

/// There are so many Bundles of an application, and none of them is being deleted.
pub(crate) fn bundles(application: &'static str, count: usize) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let all = Api::<Bundle>::all(fleet.hub_client())
                .list(&Default::default())
                .await;
            let all = all.map_err(|error| error.to_string())?;
            let own = all
                .iter()
                .filter(|bundle| bundle.name_any() == format!("default.{application}"));
            let living = own
                .filter(|bundle| bundle.metadata.deletion_timestamp.is_none())
                .count();
            (living == count)
                .then_some(())
                .ok_or_else(|| format!("{living} Bundles of {application}, not {count}"))
        })
    })
}

/// Something that is so about an object of a member; null if it is not there.
pub(crate) fn object(
    member: &str,
    (api_version, kind, name): (&'static str, &'static str, &'static str),
    is_so: impl Fn(&Value) -> bool + Send + Sync + Copy + 'static,
) -> Look {
    let member = member.to_owned();
    Look::new(move |fleet| {
        let member = member.clone();
        Box::pin(async move {
            let found = read(fleet, &member, (api_version, kind, name)).await?;
            is_so(&found).then_some(()).ok_or_else(|| found.to_string())
        })
    })
}

async fn read(
    fleet: &Fleet,
    member: &str,
    (api_version, kind, name): (&str, &str, &str),
) -> Result<Value, String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let client = fleet.member_client(member).map_err(|error| error.to_string())?;
    let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
    Ok(found.map_or(Value::Null, |found| json!(found)))
}

/// Confirms the removals that an application holds, by the hash that its status names.
pub(crate) fn confirm(name: &'static str) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let api: Api<Application> = Api::namespaced(fleet.hub_client(), "default");
            let found = api.get(name).await.map_err(|error| error.to_string())?;
            let held = found.status.and_then(|status| status.held_deletes);
            let hash = held.ok_or("no removals are held")?.hash;
            let patch = json!({"metadata": {"annotations": {annotation::CONFIRM_DELETES: hash}}});
            let patched = api
                .patch(name, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            patched.map(drop).map_err(|error| error.to_string())
        })
    })
}

/// Removals of an application wait for a confirmation.
pub(crate) fn deletes_are_held(status: &ApplicationStatus) -> bool {
    condition::is_true(&status.conditions, DELETES_HELD)
}
