//! What the steps that act outside of the fleet are asked to do: requests, messages, and objects on the hub.
//!
//! `ActionProperties::read` understands the properties of a step; executors get only what it has understood.

mod notification;
mod object;
mod request;

pub use notification::{Channel, Notification};
pub use object::{ApplyObject, ClusterVerb, HubObject};
pub use request::{
    Body, ExpectedStatus, HttpMethod, HttpRequest, REQUEST_TIMEOUT, SecretKey, StatusRange, TextSource,
};

pub(crate) use object::identity;

use super::validate::{self, Violation};
use serde_json::Value;

/// What a step that acts is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionProperties {
    /// `request`: an HTTP request.
    Request(HttpRequest),
    /// `webhook`: an HTTP request, by default a POST of the application.
    Webhook(HttpRequest),
    /// `notification`: a message to people.
    Notification(Notification),
    /// `apply-object`: writes an object on the hub.
    ApplyObject(ApplyObject),
    /// `read-object`: reads an object on the hub.
    ReadObject(HubObject),
    /// `delete-object`: deletes an object on the hub.
    DeleteObject(HubObject),
    /// `wait` over an object: looks at an object on the hub, which need not exist.
    LookAt(HubObject),
}

/// The kinds of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionKind {
    /// `request`: an HTTP request.
    Request,
    /// `webhook`: an HTTP request, by default a POST.
    Webhook,
    /// `notification`: a message to people.
    Notification,
    /// `apply-object`: writes an object on the hub.
    ApplyObject,
    /// `read-object`: reads an object on the hub.
    ReadObject,
    /// `delete-object`: deletes an object on the hub.
    DeleteObject,
}

impl ActionKind {
    /// All of them.
    pub const ALL: [ActionKind; 6] = [
        ActionKind::Request,
        ActionKind::Webhook,
        ActionKind::Notification,
        ActionKind::ApplyObject,
        ActionKind::ReadObject,
        ActionKind::DeleteObject,
    ];

    /// The kind that a step type names.
    pub fn of_type(type_: &str) -> Option<ActionKind> {
        ActionKind::ALL.into_iter().find(|kind| kind.as_str() == type_)
    }

    /// The step type.
    pub fn as_str(self) -> &'static str {
        match self {
            ActionKind::Request => "request",
            ActionKind::Webhook => "webhook",
            ActionKind::Notification => "notification",
            ActionKind::ApplyObject => "apply-object",
            ActionKind::ReadObject => "read-object",
            ActionKind::DeleteObject => "delete-object",
        }
    }
}

impl ActionProperties {
    /// Reads the properties of a step of type `type_`.
    ///
    /// # Errors
    /// All violations, their paths beginning with `properties`; never empty.
    pub fn read(type_: &str, properties: &Value) -> Result<ActionProperties, Vec<Violation>> {
        match ActionKind::of_type(type_) {
            Some(kind) => validate::read_action(kind, properties),
            None => Err(vec![Violation {
                path: "type".to_owned(),
                reason: format!("{type_:?} is no step that acts"),
            }]),
        }
    }

    /// The type of the step.
    pub fn step_type(&self) -> &'static str {
        let kind = match self {
            ActionProperties::Request(_) => ActionKind::Request,
            ActionProperties::Webhook(_) => ActionKind::Webhook,
            ActionProperties::Notification(_) => ActionKind::Notification,
            ActionProperties::ApplyObject(_) => ActionKind::ApplyObject,
            ActionProperties::ReadObject(_) => ActionKind::ReadObject,
            ActionProperties::DeleteObject(_) => ActionKind::DeleteObject,
            ActionProperties::LookAt(_) => return "wait",
        };
        kind.as_str()
    }
}
