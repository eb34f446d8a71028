//! Parameters of the hub's own writes: all of them carry its name as their field manager.

use kube::{
    ResourceExt,
    api::{DeleteParams, PatchParams, PostParams, Preconditions},
};
use roundhouse_api::names::HUB_FIELD_MANAGER;

/// Of what is created or replaced.
pub(crate) fn post() -> PostParams {
    PostParams {
        field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// Of a merge patch.
pub(crate) fn patch() -> PatchParams {
    PatchParams {
        field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Of a delete of this very object as it was read, and of no other of its name: where it changed meanwhile, that is a 409.
pub(crate) fn delete(read: &impl ResourceExt) -> DeleteParams {
    delete_version(read.uid(), read.resource_version())
}

/// The same, of what is known by its uid and version alone.
pub(crate) fn delete_version(uid: Option<String>, resource_version: Option<String>) -> DeleteParams {
    DeleteParams::background().preconditions(Preconditions {
        uid,
        resource_version,
    })
}
