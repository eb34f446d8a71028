//! A message to people as a step asks for it.

use super::TextSource;
use serde_json::{Map, Value};

/// A message to people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notification {
    /// What it says, where a channel does not say otherwise; absent: how the application stands.
    pub text: Option<String>,
    /// Where it goes, to every one of them; without one it becomes an Event of the Application.
    pub channels: Vec<Channel>,
}

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channel {
    /// An incoming webhook of Slack.
    Slack {
        /// Its address.
        url: TextSource,
        /// The message as Slack takes it: `text`, `blocks`, `attachments`, `thread_ts`, `mrkdwn`.
        message: Map<String, Value>,
    },
    /// A webhook of a Teams workflow.
    Teams {
        /// Its address.
        url: TextSource,
        /// What it says.
        text: Option<String>,
    },
    /// A webhook that takes `{text, application, revision, step}`.
    Webhook {
        /// Its address.
        url: TextSource,
        /// What it says.
        text: Option<String>,
    },
}

impl Channel {
    /// Its name among the properties.
    pub fn as_str(&self) -> &'static str {
        match self {
            Channel::Slack { .. } => "slack",
            Channel::Teams { .. } => "teams",
            Channel::Webhook { .. } => "webhook",
        }
    }

    /// Its address.
    pub fn url(&self) -> &TextSource {
        match self {
            Channel::Slack { url, .. } | Channel::Teams { url, .. } | Channel::Webhook { url, .. } => url,
        }
    }
}
