//! `GET` with `watch=true`.

use std::sync::Arc;

use super::{
    Call,
    list::{fields, parse_version},
};
use crate::{
    body::ApiBody,
    error::ApiError,
    selector::LabelSelector,
    server::Core,
    service::{Reply, ReplyBody},
    store::From,
    watch::{Lines, WatchStream},
};

/// Opens a watch.
pub(super) fn watch(core: &Arc<Core>, call: &Call) -> Result<Reply, ApiError> {
    let query = &call.query;
    let labels =
        LabelSelector::parse(&query.label_selector).map_err(|e| ApiError::bad_request(e.to_string()))?;
    let fields = fields(call)?;
    let slot = core.flow.watch(&call.identity)?;
    let version = parse_version(&query.resource_version)?;
    let from = match version {
        _ if query.send_initial_events == Some(true) => From::State,
        None | Some(0) if query.send_initial_events == Some(false) => From::Now,
        None | Some(0) => From::State,
        Some(revision) => From::Revision(revision),
    };
    let lines = Lines {
        call: call.clone(),
        labels,
        fields,
        clock: core.clock.clone(),
    };
    let body = match core
        .store
        .subscribe(&call.resource.table, call.path.namespace.as_deref(), from)
    {
        Ok(subscription) => ApiBody::watch(WatchStream::new(core.clone(), lines, subscription, slot)),
        // The watch opens and ends with an error event, as in Kubernetes.
        Err(too_old) => ApiBody::full(Lines::error(&ApiError::expired(too_old.to_string()))),
    };
    Ok(Reply {
        code: 200,
        body: ReplyBody::Stream(body),
        warnings: vec![],
    })
}
