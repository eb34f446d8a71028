//! One module per verb; all of them work on any kind.

mod apply;
mod create;
mod delete;
mod get;
mod list;
mod patch;
mod review;
mod scale;
mod stored;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    auth::Identity,
    error::ApiError,
    kinds::Resource,
    managed::{Writer, subresource},
    request::{Output, Query, ResourcePath},
    server::Core,
    service::Reply,
    store::Key,
};

pub(crate) use create::store_new;
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, remove};
pub(crate) use stored::{decode_stored, encode_stored, type_prefix};
pub(crate) use update::{Part, Refusal, store_update};

/// A request on a resource.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) output: Output,
    pub(crate) media: String,
    pub(crate) verb: &'static str,
    pub(crate) identity: Identity,
    /// The field manager: the one of the query, or that of the `User-Agent`.
    pub(crate) manager: String,
}

/// How an object is to be written.
#[derive(Debug, Clone)]
pub(crate) struct Intent {
    /// Which part of it.
    pub(crate) part: Part,
    /// By whom.
    pub(crate) writer: Writer,
    /// Whether only to say what would become of it.
    pub(crate) dry_run: bool,
}

impl Intent {
    /// A write of the server itself.
    pub(crate) fn of_controller(part: Part) -> Self {
        Self {
            part,
            writer: Writer::controller(part),
            dry_run: false,
        }
    }
}

impl Call {
    /// Namespace of the path; empty if there is none.
    pub(crate) fn namespace(&self) -> &str {
        self.path.namespace.as_deref().unwrap_or_default()
    }

    /// Name of the path; empty if there is none.
    pub(crate) fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or_default()
    }

    /// How the request writes this part of an object, unless it is a server-side apply.
    pub(crate) fn intent(&self, part: Part) -> Intent {
        let writer = Writer::Update {
            manager: self.manager.clone(),
            subresource: subresource(part),
        };
        Intent {
            part,
            writer,
            dry_run: self.query.dry_run,
        }
    }

    /// Place of the object the path names.
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.resource.table, self.namespace(), self.name())
    }
}

/// Answers a request on a resource, when all that follows from it is done.
pub(crate) fn dispatch(core: &Arc<Core>, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let reply = route(core, call, body);
    if !matches!(call.verb, "get" | "list" | "watch") {
        core.follow_up();
    }
    reply
}

fn route(core: &Arc<Core>, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let resource = &call.resource;
    if !resource.namespaced && call.path.namespace.is_some() {
        return Err(ApiError::no_such_path());
    }
    if resource.quirks.review {
        return match (call.verb, &call.path.name) {
            ("create", None) => review::review(core, call, body),
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    let across = resource.namespaced && call.path.namespace.is_none();
    if across && !matches!(call.verb, "list" | "watch") {
        let error = if call.path.name.is_some() {
            ApiError::no_such_path()
        } else {
            ApiError::method_not_allowed()
        };
        return Err(error);
    }
    match (call.verb, call.path.subresource.as_deref()) {
        ("get", None) => get::get(core, call),
        ("list", None) => list::list(core, call),
        ("watch", None) => watch::watch(core, call),
        ("create", None) if call.path.name.is_none() => create::create(core, call, body),
        ("update", None) => update::update(core, call, Part::Main, body),
        ("patch", None) => patch::patch(core, call, Part::Main, body),
        ("delete", None) => delete::delete(core, call, body),
        ("deletecollection", None) => delete::delete_collection(core, call, body),
        (verb, Some("status")) if resource.status => match verb {
            "get" => get::get(core, call),
            "update" => update::update(core, call, Part::Status, body),
            "patch" => patch::patch(core, call, Part::Status, body),
            _ => Err(ApiError::method_not_allowed()),
        },
        ("update", Some("finalize")) if resource.kind == "Namespace" => {
            update::update(core, call, Part::Finalize, body)
        }
        (verb, Some("scale")) => match (&resource.scale, verb) {
            (Some(paths), "get") => scale::get(core, call, paths),
            (Some(paths), "update") => scale::update(core, call, paths, body),
            (Some(paths), "patch") => scale::patch(core, call, paths, body),
            (Some(_), _) => Err(ApiError::method_not_allowed()),
            (None, _) => Err(ApiError::no_such_path()),
        },
        (_, Some(_)) => Err(ApiError::no_such_path()),
        _ => Err(ApiError::method_not_allowed()),
    }
}
