//! `apply-object`, `read-object`, `delete-object`, and `wait` over an object: on the hub, and only in the application's
//! namespace. What goes to clusters goes in Bundles, and not by actions.

use super::{Job, Outcome, runner::Means};
use crate::{words::said, writes};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams, ValidationDirective},
    core::GroupVersionKind,
    discovery::{self, Scope},
    runtime::{WatchStreamExt, watcher},
};
use roundhouse_api::{
    application::{ApplyObject, HubObject},
    bundle::ApplicationRef,
    names::{HUB_FIELD_MANAGER, label},
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Writes an object by server-side apply; its output is the object as it is then. An object that this application's steps
/// have not made is left alone.
pub(super) async fn apply(means: &Means, job: &Job, of: &ApplyObject) -> Outcome {
    let applied = async {
        let api = api(means, job, &of.object).await?;
        let mut value = owned(&of.value, &job.application, &job.step)?;
        if let Some(existing) = find(&api, job, &of.object).await? {
            check_own(&existing, job, &of.object)?;
            // What was looked at is what is written over: not what a newer leader has made of it since.
            value["metadata"]["resourceVersion"] = Value::from(existing.resource_version());
        }
        let params = PatchParams {
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::apply(HUB_FIELD_MANAGER)
        };
        let written = api.patch(&of.object.name, &params, &Patch::Apply(&value)).await;
        written.map_err(|error| refused("applying", job, &of.object, &error))
    };
    conclude(applied.await)
}

/// Reads an object; its output is the object.
pub(super) async fn read(means: &Means, job: &Job, of: &HubObject) -> Outcome {
    let found = async {
        let api = api(means, job, of).await?;
        let found = find(&api, job, of).await?;
        found.ok_or_else(|| format!("{} does not exist", title(job, of)))
    };
    conclude(found.await)
}

/// Looks at an object; its output is the object, or null where there is none.
pub(super) async fn look_at(means: &Means, job: &Job, of: &HubObject) -> Outcome {
    let found = async {
        let api = api(means, job, of).await?;
        find(&api, job, of).await
    };
    match found.await {
        Ok(None) => Outcome::Done { output: Value::Null },
        Ok(Some(object)) => conclude(Ok(object)),
        Err(message) => Outcome::failed(message),
    }
}

/// Tells when an object may have changed. It ends where the hub may not watch the kind: then the looks are all there is.
pub(super) fn changes(means: Arc<Means>, job: Job, of: HubObject) -> BoxStream<'static, ()> {
    let name = format!("metadata.name={}", of.name);
    let api = async move { api(&means, &job, &of).await.ok() };
    let events = move |api: Api<DynamicObject>| {
        watcher(api, watcher::Config::default().fields(&name)).default_backoff()
    };
    let all = stream::once(api)
        .filter_map(std::future::ready)
        .map(events)
        .flatten();
    let told = all.take_while(|event| {
        let denied = |error: &watcher::Error| match error {
            watcher::Error::InitialListFailed(kube::Error::Api(answer))
            | watcher::Error::WatchStartFailed(kube::Error::Api(answer)) => {
                [401, 403, 404, 405].contains(&answer.code)
            }
            _ => false,
        };
        std::future::ready(!event.as_ref().is_err_and(denied))
    });
    // What is listed first, or again, may have changed since it was looked at.
    let changed = told.filter_map(async |event| match event {
        Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone) => Some(()),
        _ => None,
    });
    Box::pin(changed)
}

/// Deletes an object that this application's steps have made, and waits until it is gone.
pub(super) async fn delete(means: &Means, job: &Job, of: &HubObject) -> Outcome {
    let deleted = async {
        let api = api(means, job, of).await?;
        let Some(existing) = find(&api, job, of).await? else {
            return Ok(false);
        };
        check_own(&existing, job, of)?;
        if existing.metadata.deletion_timestamp.is_none() {
            match api.delete(&of.name, &writes::delete(&existing)).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => return Err(refused("deleting", job, of, &error)),
            }
        }
        Ok(find(&api, job, of).await?.is_some())
    };
    match deleted.await {
        Ok(false) => Outcome::Done { output: Value::Null },
        Ok(true) => Outcome::Waiting {
            message: format!(
                "{} is being deleted: its finalizers are waited for",
                title(job, of)
            ),
        },
        Err(message) => Outcome::failed(message),
    }
}

fn conclude(object: Result<DynamicObject, String>) -> Outcome {
    let value = object.and_then(|mut object| {
        object.metadata.managed_fields = None;
        serde_json::to_value(object).map_err(|error| format!("the object does not read: {error}"))
    });
    match value {
        Ok(output) => Outcome::Done { output },
        Err(message) => Outcome::failed(message),
    }
}

/// Access to the objects of a kind in the application's namespace.
async fn api(means: &Means, job: &Job, of: &HubObject) -> Result<Api<DynamicObject>, String> {
    let own = &job.application.namespace;
    if let Some(other) = of.namespace.as_ref().filter(|namespace| *namespace != own) {
        return Err(format!(
            "{of} in namespace {other:?} is refused: steps see and write the application's namespace only, {own:?}"
        ));
    }
    let gvk = GroupVersionKind::gvk(of.group(), of.version(), &of.kind);
    let found = discovery::pinned_kind(&means.client, &gvk).await;
    let (resource, capabilities) = found.map_err(|error| {
        format!(
            "the hub's API server has no kind {} in {}: {}",
            of.kind,
            of.api_version,
            said(&error)
        )
    })?;
    if capabilities.scope == Scope::Cluster {
        return Err(format!(
            "{of} is refused: {} has no namespace, and steps see and write the application's namespace only, {own:?}",
            of.kind
        ));
    }
    Ok(Api::namespaced_with(means.client.clone(), own, &resource))
}

async fn find(api: &Api<DynamicObject>, job: &Job, of: &HubObject) -> Result<Option<DynamicObject>, String> {
    api.get_opt(&of.name)
        .await
        .map_err(|error| refused("reading", job, of, &error))
}

fn title(job: &Job, of: &HubObject) -> String {
    format!("{} {}/{}", of.kind, job.application.namespace, of.name)
}

fn refused(doing: &str, job: &Job, of: &HubObject, error: &kube::Error) -> String {
    format!("{doing} {} failed: {}", title(job, of), said(error))
}

/// Labels of an object that a step writes. The step's tells it from what the hub itself writes for an application.
fn labels<'a>(application: &'a ApplicationRef, step: &'a str) -> [(&'static str, &'a str); 3] {
    [
        (label::APP_NAME, &application.name),
        (label::APP_NAMESPACE, &application.namespace),
        (label::STEP, step),
    ]
}

fn check_own(existing: &DynamicObject, job: &Job, of: &HubObject) -> Result<(), String> {
    let own = labels(&job.application, &job.step);
    let [name, namespace, (step, _)] = own;
    let has = |(key, value): (&str, &str)| existing.labels().get(key).is_some_and(|v| v == value);
    match has(name) && has(namespace) && existing.labels().contains_key(step) {
        true => Ok(()),
        false => Err(format!(
            "{} exists and was not made by a step of this application: choose another name, or delete it by hand",
            title(job, of)
        )),
    }
}

/// The object as it is written: in the application's namespace, with its labels.
fn owned(value: &Value, application: &ApplicationRef, step: &str) -> Result<Value, String> {
    let mut value = value.clone();
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    let metadata = metadata.ok_or_else(|| "metadata of the object is no map".to_owned())?;
    metadata.insert("namespace".to_owned(), Value::from(application.namespace.clone()));
    let map = metadata.entry("labels").or_insert(Value::Null);
    if map.is_null() {
        *map = Value::Object(Map::new());
    }
    let map = map.as_object_mut();
    let map = map.ok_or_else(|| "metadata.labels of the object is no map".to_owned())?;
    for (key, value) in labels(application, step) {
        map.insert(key.to_owned(), Value::from(value));
    }
    Ok(value)
}
