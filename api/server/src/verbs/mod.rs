//! One module per verb; all of them work on any kind.

mod apply;
mod create;
mod delete;
mod get;
mod list;
mod patch;
mod pod;
mod review;
mod scale;
mod stored;
mod token;
mod update;
mod watch;

use std::sync::{Arc, atomic::AtomicBool};

use bytes::Bytes;

use crate::{
    auth::{Action, Attributes, Identity, denied},
    error::ApiError,
    kinds::Resource,
    managed::{Writer, subresource},
    request::{Format, Output, Query, ResourcePath},
    server::Core,
    service::Reply,
    store::Key,
};

pub(crate) use create::store_new;
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, remove};
pub(crate) use scale::selector_text;
pub(crate) use stored::{decode_stored, encode_stored, put_metadata, put_stored, type_prefix};
pub(crate) use update::{Part, Refusal, store_update};

/// The verbs of every resource, in the order in which they are told.
pub(crate) const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// A request on a resource.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) output: Output,
    pub(crate) media: String,
    pub(crate) verb: &'static str,
    pub(crate) identity: Arc<Identity>,
    /// The field manager: the one of the query, or that of the `User-Agent`.
    pub(crate) manager: String,
    /// Where it is noted that a Lease changed hands, if somebody wants to know.
    pub(crate) taken_over: Option<Arc<AtomicBool>>,
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
    /// Whose request it is; `None` for the server's own writes.
    pub(crate) author: Option<Author>,
}

/// Whoever asks for a write.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    pub(crate) identity: Arc<Identity>,
    /// Whether the path of the request names the object.
    pub(crate) named: bool,
    /// As of [`Call::taken_over`].
    pub(crate) taken_over: Option<Arc<AtomicBool>>,
}

impl Intent {
    /// A write of the server itself.
    pub(crate) fn of_controller(part: Part) -> Self {
        Self {
            part,
            writer: Writer::controller(part),
            dry_run: false,
            author: None,
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
            author: Some(Author {
                identity: self.identity.clone(),
                named: self.path.name.is_some(),
                taken_over: self.taken_over.clone(),
            }),
        }
    }

    /// Place of the object the path names.
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.resource.table, self.namespace(), self.name())
    }
}

/// Refuses an update or apply that turns out to create the object, if the sender may only change what is there.
pub(super) fn check_create(core: &Core, call: &Call) -> Result<(), ApiError> {
    let attributes = Attributes {
        verb: "create",
        group: &call.resource.group,
        resource: &call.resource.plural,
        subresource: "",
        namespace: call.namespace(),
        name: call.name(),
    };
    let decision = core
        .authorizer
        .decide(&call.identity, &Action::Resource(attributes));
    if decision.allowed {
        return Ok(());
    }
    Err(denied(&call.identity, &attributes, &decision.reason))
}

/// Answers a request on a resource, when all that follows from it is done.
pub(crate) fn dispatch(core: &Arc<Core>, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let reply = route(core, call, body);
    if !matches!(call.verb, "get" | "list" | "watch") {
        core.follow_up();
        if reply.is_ok() {
            core.take_up_again();
        }
    }
    reply
}

/// Metadata alone is that of one object or that of a list, as the answer is.
fn check_shape(call: &Call) -> Result<(), ApiError> {
    let is_list = matches!(call.verb, "list" | "deletecollection");
    if call.output.format != Format::Metadata || call.verb == "watch" || call.output.list == is_list {
        return Ok(());
    }
    let message = match is_list {
        true => "you requested PartialObjectMetadata, but the requested object is a list",
        false => "you requested PartialObjectMetadataList, but the requested object is not a list",
    };
    Err(ApiError::new(406, "NotAcceptable", message))
}

fn route(core: &Arc<Core>, call: &Call, body: &Bytes) -> Result<Reply, ApiError> {
    let resource = &call.resource;
    if !resource.namespaced && call.path.namespace.is_some() {
        return Err(ApiError::no_such_path());
    }
    if resource.quirks.review {
        if resource.namespaced && call.path.namespace.is_none() {
            return Err(ApiError::no_such_path());
        }
        return match (call.verb, &call.path.name) {
            ("create", None) => review::review(core, call, body),
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    check_shape(call)?;
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
        ("deletecollection", None) if &*resource.table != "namespaces" => {
            delete::delete_collection(core, call, body)
        }
        (verb, Some("status")) if resource.status => match verb {
            "get" => get::get(core, call),
            "update" => update::update(core, call, Part::Status, body),
            "patch" => patch::patch(core, call, Part::Status, body),
            _ => Err(ApiError::method_not_allowed()),
        },
        (verb, Some(name)) if &*resource.table == "pods" && pod::part(name).is_some() => {
            let part = pod::part(name).unwrap_or(Part::Main);
            match verb {
                "get" => get::get(core, call),
                "update" => update::update(core, call, part, body),
                "patch" => patch::patch(core, call, part, body),
                _ => Err(ApiError::method_not_allowed()),
            }
        }
        ("get" | "create", Some("log" | "exec" | "attach" | "portforward" | "proxy"))
            if &*resource.table == "pods" =>
        {
            pod::connect(core, call)
        }
        ("create", Some("eviction")) if &*resource.table == "pods" => pod::evict(core, call, body),
        ("create", Some("binding")) if &*resource.table == "pods" => pod::bind(core, call, body),
        ("update", Some("finalize")) if resource.kind == "Namespace" => {
            update::update(core, call, Part::Finalize, body)
        }
        (verb, Some("approval")) if &*resource.table == crate::csr::TABLE => match verb {
            "get" => get::get(core, call),
            "update" => update::update(core, call, Part::Approval, body),
            "patch" => patch::patch(core, call, Part::Approval, body),
            _ => Err(ApiError::method_not_allowed()),
        },
        ("create", Some("token")) if &*resource.table == "serviceaccounts" => token::create(core, call, body),
        (_, Some("token")) if &*resource.table == "serviceaccounts" => Err(ApiError::method_not_allowed()),
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
