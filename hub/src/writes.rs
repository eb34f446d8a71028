//! Parameters of the hub's own writes: all of them carry its name as their field manager.

use kube::api::{PatchParams, PostParams};
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
