//! `notification`.

use super::super::node::{Node, Object, Shape};
use super::request::url;
use crate::application::{Channel, Notification};
use serde_json::Map;

const NOTIFICATION: Shape = Shape {
    known: &[&["message", "slack", "teams", "webhook"]],
    refused: &[
        ("lark", "lark is not supported: use slack, teams, or webhook"),
        (
            "dingding",
            "dingding is not supported: use slack, teams, or webhook",
        ),
        ("email", "email is not supported: use slack, teams, or webhook"),
    ],
};
const CHANNELS: [&str; 3] = ["slack", "teams", "webhook"];
const CHANNEL: Shape = Shape {
    known: &[&["url", "message"]],
    refused: &[],
};
/// As KubeVela and Slack have it.
const SLACK_MESSAGE: Shape = Shape {
    known: &[&["text", "blocks", "attachments", "thread_ts", "mrkdwn"]],
    refused: &[],
};
const MESSAGE: Shape = Shape {
    known: &[&["text"]],
    refused: &[],
};

/// KubeVela's `slack`, and more. The seed's form has no properties at all.
pub(super) fn notification(node: &Node<'_>) -> Option<Notification> {
    let object = node.object(&NOTIFICATION)?;
    let text = match object.optional("message") {
        Some(node) => Some(node.text()?.to_owned()),
        None => None,
    };
    let named = CHANNELS.iter().filter_map(|name| {
        let node = object.optional(name)?;
        Some(channel(name, &node))
    });
    // Every one is looked at before the first bad one ends it.
    let channels: Vec<Option<Channel>> = named.collect();
    let channels: Option<Vec<Channel>> = channels.into_iter().collect();
    Some(Notification {
        text,
        channels: channels?,
    })
}

fn channel(name: &str, node: &Node<'_>) -> Option<Channel> {
    let object = node.object(&CHANNEL)?;
    let url = url(&object);
    let message = object.optional("message");
    if name == "slack" {
        let message = match message {
            Some(node) => slack(&node)?,
            None => Map::new(),
        };
        return Some(Channel::Slack { url: url?, message });
    }
    let text = match message {
        Some(node) => text(&node.object(&MESSAGE)?)?,
        None => None,
    };
    let url = url?;
    Some(match name {
        "teams" => Channel::Teams { url, text },
        _ => Channel::Webhook { url, text },
    })
}

fn slack(node: &Node<'_>) -> Option<Map<String, serde_json::Value>> {
    let object = node.object(&SLACK_MESSAGE)?;
    text(&object)?;
    let list = |name: &str| object.optional(name).is_none_or(|node| node.list().is_some());
    let lists = [list("blocks"), list("attachments")];
    let thread = object
        .optional("thread_ts")
        .is_none_or(|node| node.text().is_some());
    let plain = object
        .optional("mrkdwn")
        .is_none_or(|node| node.boolean().is_some());
    if !(lists == [true; 2] && thread && plain) {
        return None;
    }
    let mut message = node.value.as_object()?.clone();
    message.retain(|_, value| !value.is_null());
    Some(message)
}

/// `None`: not understood; `Some(None)`: not given.
fn text(object: &Object<'_>) -> Option<Option<String>> {
    match object.optional("text") {
        None => Some(None),
        Some(node) => Some(Some(node.text()?.to_owned())),
    }
}
