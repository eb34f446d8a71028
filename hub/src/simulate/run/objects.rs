//! What users and others do to objects.

use super::Target;
use crate::{
    simulate::{Fleet, HarnessError, raw::is_built_in},
    words,
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::Value;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActError {
    /// Not now; the same may go through later.
    #[error("{0}")]
    Later(String),
    /// It is refused.
    #[error("{0}")]
    Refused(String),
}

impl From<kube::Error> for ActError {
    fn from(error: kube::Error) -> ActError {
        let text = words::said(&error);
        match error {
            kube::Error::Api(status) if status.code < 500 && ![409, 429].contains(&status.code) => {
                ActError::Refused(text)
            }
            _ => ActError::Later(text),
        }
    }
}

impl From<HarnessError> for ActError {
    fn from(error: HarnessError) -> ActError {
        match error {
            HarnessError::Api { source, .. } => ActError::from(*source),
            other => ActError::Refused(other.to_string()),
        }
    }
}

/// Who changes things on the hub, and in members beside the agent.
const SOMEBODY: &str = "somebody";

/// The resource of a kind.
pub(super) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn api(fleet: &Fleet, target: &Target) -> Result<Api<DynamicObject>, ActError> {
    let client = match &target.member {
        Some(member) => fleet.member_client(member)?,
        None => fleet.hub_client(),
    };
    let resource = resource(&target.api_version, &target.kind);
    Ok(match target.namespace.as_str() {
        "" => Api::all_with(client, &resource),
        namespace => Api::namespaced_with(client, namespace, &resource),
    })
}

/// What an object's own text says that it is.
pub(super) fn target_of(member: Option<&str>, object: &Value) -> Target {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Target {
        member: member.map(str::to_owned),
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    }
}

/// Creates an object, or gives it this content. A namespace that is there keeps what others, the hub for one, have written on it.
pub(super) async fn apply(fleet: &Fleet, member: Option<&str>, object: &Value) -> Result<(), ActError> {
    let target = target_of(member, object);
    let api = api(fleet, &target)?;
    let parsed = serde_json::from_value::<DynamicObject>(object.clone());
    let mut wanted = parsed.map_err(|error| ActError::Refused(error.to_string()))?;
    let params = PostParams {
        field_manager: Some(SOMEBODY.to_owned()),
        ..PostParams::default()
    };
    match api.get_opt(&wanted.name_any()).await? {
        // The namespace may be the hub's to make.
        None => match api.create(&params, &wanted).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                return Err(ActError::Later(status.message));
            }
            created => created?,
        },
        Some(_) if (target.api_version.as_str(), target.kind.as_str()) == ("v1", "Namespace") => {
            let params = PatchParams {
                field_manager: params.field_manager,
                ..PatchParams::default()
            };
            api.patch(&target.name, &params, &Patch::Merge(object)).await?
        }
        Some(there) => {
            wanted.metadata.resource_version = there.metadata.resource_version;
            wanted.metadata.finalizers = there.metadata.finalizers;
            if let (Some(wanted), Some(status)) = (wanted.data.as_object_mut(), there.data.get("status")) {
                wanted.insert("status".to_owned(), status.clone());
            }
            api.replace(&wanted.name_any(), &params, &wanted).await?
        }
    };
    Ok(())
}

/// Changes an object, or its status.
pub(super) async fn patch(
    fleet: &Fleet,
    target: &Target,
    patch: &Value,
    status: bool,
) -> Result<(), ActError> {
    let api = api(fleet, target)?;
    let params = PatchParams {
        field_manager: Some(SOMEBODY.to_owned()),
        ..PatchParams::default()
    };
    let patched = match status {
        true => {
            api.patch_status(&target.name, &params, &Patch::Merge(patch))
                .await
        }
        // As kubectl does it: a container is put beside the others.
        false if target.member.is_some() && is_built_in(&target.api_version) => {
            api.patch(&target.name, &params, &Patch::Strategic(patch)).await
        }
        false => api.patch(&target.name, &params, &Patch::Merge(patch)).await,
    };
    match patched {
        // What is to be delivered there is not there yet.
        Err(kube::Error::Api(status)) if status.code == 404 && target.member.is_some() => {
            Err(ActError::Later(status.message))
        }
        patched => Ok(patched.map(drop)?),
    }
}

/// Deletes an object; one that is gone already is deleted.
pub(super) async fn delete(fleet: &Fleet, target: &Target) -> Result<(), ActError> {
    match api(fleet, target)?
        .delete(&target.name, &DeleteParams::background())
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}
