//! Writes transitions as core/v1 Events, the kind that `kubectl describe` reads on every server.
//!
//! The name of an Event follows from what it says of which object: the same thing told again raises the count of the one
//! that is there, also after a restart, and nothing has to be remembered here. API servers let Events go after an hour.

use super::{super::cache::Stored, Transition};
use crate::metrics::Metrics;
use crate::writes;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, Error, Resource, api::Patch};
use roundhouse_api::{application::Application, hash, names::HUB_FIELD_MANAGER};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// Events that wait to be written; more are dropped and counted, so that a slow API server costs no memory.
const WAITING: usize = 4_096;
/// Events that are put together before they are written.
const BATCH: usize = 64;
/// Events that are written at once.
const CONCURRENT: usize = 8;
/// Longest message that the API server takes, in bytes.
const MAX_MESSAGE: usize = 1_024;

/// The Application that something happened to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::application) struct About {
    pub(in crate::application) namespace: String,
    pub(in crate::application) name: String,
    pub(in crate::application) uid: String,
}

impl About {
    pub(in crate::application) fn of(app: &Stored) -> About {
        About {
            namespace: app.namespace.clone(),
            name: app.name.clone(),
            uid: app.uid.clone(),
        }
    }
}

/// One thing to tell.
#[derive(Debug)]
struct Record {
    about: About,
    transition: Transition,
    at: Timestamp,
}

/// Takes what is to be told; never waits.
#[derive(Debug, Clone)]
pub(in crate::application) struct Recorder {
    sender: mpsc::Sender<Record>,
    metrics: Metrics,
}

/// What was told and is not written yet.
#[derive(Debug)]
pub(in crate::application) struct Inbox(mpsc::Receiver<Record>);

impl Recorder {
    /// A recorder, and the inbox that [`record`] empties.
    pub(in crate::application) fn new(metrics: Metrics) -> (Recorder, Inbox) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Recorder { sender, metrics }, Inbox(receiver))
    }

    /// Tells what happened to an Application at `at`.
    pub(in crate::application) fn tell(&self, about: &About, transitions: Vec<Transition>, at: Timestamp) {
        for transition in transitions {
            let record = Record {
                about: about.clone(),
                transition,
                at,
            };
            if self.sender.try_send(record).is_err() {
                self.metrics.event_dropped();
                tracing::debug!(application = %about.name, "too many events wait, one is dropped");
            }
        }
    }
}

/// Writes what is told until the recorder is gone. An Event that cannot be written is logged and given up.
pub(in crate::application) async fn record(client: Client, Inbox(mut inbox): Inbox) {
    let mut batch = Vec::with_capacity(BATCH);
    while inbox.recv_many(&mut batch, BATCH).await > 0 {
        let due = put_together(batch.drain(..));
        stream::iter(due)
            .for_each_concurrent(CONCURRENT, |event| write(&client, event))
            .await;
    }
}

/// The Events of some records: what is told several times becomes one with a count.
fn put_together(records: impl Iterator<Item = Record>) -> Vec<Event> {
    let mut events: BTreeMap<String, Event> = BTreeMap::new();
    let mut order = Vec::new();
    for record in records {
        let event = event(&record);
        let name = event.metadata.name.clone().unwrap_or_default();
        match events.get_mut(&name) {
            Some(held) => {
                held.count = Some(held.count.unwrap_or(1).saturating_add(1));
                held.last_timestamp = event.last_timestamp;
            }
            None => {
                order.push(name.clone());
                events.insert(name, event);
            }
        }
    }
    order.iter().filter_map(|name| events.remove(name)).collect()
}

fn event(record: &Record) -> Event {
    let Record {
        about,
        transition,
        at,
    } = record;
    let type_ = if transition.warning { "Warning" } else { "Normal" };
    let message = cut(&transition.message);
    let told = format!("{}\n{type_}\n{}\n{message}", about.uid, transition.reason);
    let mut digest = hash::sha256(told.as_bytes());
    digest.truncate(16);
    let mut event = Event {
        involved_object: ObjectReference {
            api_version: Some(Application::api_version(&()).into_owned()),
            kind: Some(Application::kind(&()).into_owned()),
            namespace: Some(about.namespace.clone()),
            name: Some(about.name.clone()),
            uid: Some(about.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some(type_.to_owned()),
        reason: Some(transition.reason.to_owned()),
        message: Some(message),
        count: Some(1),
        first_timestamp: Some(Time(*at)),
        last_timestamp: Some(Time(*at)),
        source: Some(EventSource {
            component: Some(HUB_FIELD_MANAGER.to_owned()),
            ..EventSource::default()
        }),
        ..Event::default()
    };
    event.metadata.name = Some(format!("{}.{digest}", about.name));
    event.metadata.namespace = Some(about.namespace.clone());
    event
}

async fn write(client: &Client, event: Event) {
    let (namespace, name) = (
        event.metadata.namespace.clone().unwrap_or_default(),
        event.metadata.name.clone().unwrap_or_default(),
    );
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let written = match api.create(&writes::post(), &event).await {
        Err(Error::Api(answer)) if answer.reason == "AlreadyExists" => again(&api, &name, &event).await,
        other => other.map(drop),
    };
    match written {
        // The namespace is on its way out: nobody will read it.
        Err(Error::Api(answer)) if matches!(answer.code, 403 | 404) => {
            tracing::debug!(event = name, %namespace, answer = answer.message, "an event was not written");
        }
        Err(error) => tracing::warn!(event = name, %namespace, %error, "an event was not written"),
        Ok(()) => {}
    }
}

/// Raises the count of an Event that is there.
async fn again(api: &Api<Event>, name: &str, event: &Event) -> Result<(), Error> {
    let held = api.get(name).await?;
    let count = held.count.unwrap_or(1).saturating_add(event.count.unwrap_or(1));
    let patch = json!({
        "metadata": {"resourceVersion": held.metadata.resource_version},
        "count": count,
        "lastTimestamp": event.last_timestamp,
    });
    let patch = Patch::Merge(patch);
    api.patch(name, &writes::patch(), &patch).await.map(drop)
}

/// At most so many bytes, cut between characters.
fn cut(message: &str) -> String {
    if message.len() <= MAX_MESSAGE {
        return message.to_owned();
    }
    let end = message
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|at| *at <= MAX_MESSAGE - '…'.len_utf8())
        .last()
        .unwrap_or(0);
    format!("{}…", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(reason: &'static str, message: &str, second: i64) -> Record {
        Record {
            about: About {
                namespace: "ns".to_owned(),
                name: "web".to_owned(),
                uid: "u1".to_owned(),
            },
            transition: Transition {
                reason,
                message: message.to_owned(),
                warning: false,
            },
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn what_is_told_again_is_counted() {
        let records = [
            record("StepStarted", "step east started", 1),
            record("Unhealthy", "not ready", 2),
            record("StepStarted", "step east started", 3),
            record("StepStarted", "step west started", 4),
        ];
        let events = put_together(records.into_iter());
        let shown: Vec<_> = events
            .iter()
            .map(|event| {
                let second = |time: &Option<Time>| time.as_ref().unwrap().0.as_second();
                let (message, count) = (event.message.as_deref().unwrap(), event.count.unwrap());
                (
                    message,
                    count,
                    second(&event.first_timestamp),
                    second(&event.last_timestamp),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("step east started", 2, 1, 3),
                ("not ready", 1, 2, 2),
                ("step west started", 1, 4, 4)
            ]
        );
    }

    #[test]
    fn names_tell_objects_and_messages_apart() {
        let name = |record: &Record| event(record).metadata.name.unwrap();
        let one = record("A", "x", 1);
        assert_eq!(name(&one), name(&record("A", "x", 2)));
        assert_ne!(name(&one), name(&record("B", "x", 1)));
        assert_ne!(name(&one), name(&record("A", "y", 1)));
        let mut reborn = record("A", "x", 1);
        reborn.about.uid = "u2".to_owned();
        assert_ne!(name(&one), name(&reborn));
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let long = "ä".repeat(2_000);
        let cut = cut(&long);
        assert!(cut.len() <= MAX_MESSAGE && cut.ends_with('…'), "{}", cut.len());
        assert_eq!(super::cut("short"), "short");
    }

    #[tokio::test]
    async fn a_full_inbox_drops_and_never_waits() {
        let metrics = Metrics::default();
        let (recorder, inbox) = Recorder::new(metrics.clone());
        let about = record("A", "x", 1).about;
        for _ in 0..WAITING + 3 {
            recorder.tell(
                &about,
                vec![record("A", "x", 1).transition],
                Timestamp::UNIX_EPOCH,
            );
        }
        assert!(
            metrics.render().contains("roundhouse_events_dropped_total 3\n"),
            "{}",
            metrics.render()
        );
        drop(inbox);
    }
}
