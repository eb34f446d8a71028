//! One write of one object of one server, as its store made it.

use super::who::{Asked, Who};
use crate::simulate::trace::Object;
use bytes::Bytes;
use roundhouse_apiserver::{Key, Record};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

static NULL: Value = Value::Null;

/// A write, with the object before and after it.
#[derive(Debug)]
pub struct Commit {
    /// The server.
    pub server: Arc<str>,
    /// The object.
    pub key: Key,
    /// The request that asked for it; absent for what a server did by itself.
    pub asked: Option<Arc<Asked>>,
    /// Whether it is the first write of this object for that request.
    pub first: bool,
    /// So long after the start.
    pub at: Duration,
    /// What was replaced.
    pub before: Option<Record>,
    /// The revision of the write.
    pub revision: u64,
    /// What is stored; absent if the object is gone.
    pub after: Option<Bytes>,
    parsed: (OnceLock<Value>, OnceLock<Value>),
}

impl Commit {
    /// A write.
    pub fn new(
        (server, key): (&Arc<str>, &Key),
        asked: Option<Arc<Asked>>,
        at: Duration,
        before: Option<Record>,
        (revision, after): (u64, Option<Bytes>),
    ) -> Self {
        let first = asked.as_ref().is_none_or(|asked| asked.wrote(key, revision));
        Commit {
            server: server.clone(),
            key: key.clone(),
            asked,
            first,
            at,
            before,
            revision,
            after,
            parsed: (OnceLock::new(), OnceLock::new()),
        }
    }

    /// The object.
    pub fn object(&self) -> Object {
        Object {
            server: self.server.clone(),
            table: self.key.table.clone(),
            namespace: self.key.namespace.clone(),
            name: self.key.name.clone(),
        }
    }

    /// When it was asked for.
    pub fn sent(&self) -> Duration {
        let under_way = self.asked.as_ref().map(|asked| asked.under_way);
        self.at.saturating_sub(under_way.unwrap_or_default())
    }

    /// Who asked for it.
    pub fn by(&self) -> Option<&Who> {
        self.asked.as_ref().map(|asked| &asked.who)
    }

    /// The object before it; null if there was none.
    pub fn before(&self) -> &Value {
        let bytes = self.before.as_ref().map(|record| &record.bytes);
        bytes.map_or(&NULL, |bytes| self.parsed.0.get_or_init(|| parse(bytes)))
    }

    /// The object after it; null if it is gone.
    pub fn after(&self) -> &Value {
        let bytes = self.after.as_ref();
        bytes.map_or(&NULL, |bytes| self.parsed.1.get_or_init(|| parse(bytes)))
    }

    /// The object after it as its type, if it is there and can be read.
    pub fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(self.after.as_ref()?).ok()
    }

    /// A text of the object after it, or before it if it is gone.
    pub fn text(&self, pointer: &str) -> &str {
        let last = if self.after.is_some() {
            self.after()
        } else {
            self.before()
        };
        last.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether the object is there before and after, and is the same one.
    pub fn is_change(&self) -> bool {
        let uid = |value: &Value| value.pointer("/metadata/uid").cloned();
        self.before.is_some() && self.after.is_some() && uid(self.before()) == uid(self.after())
    }

    /// Whether with it the object begins to go, or goes at once.
    pub fn deletes(&self) -> bool {
        let going = |value: &Value| value.pointer("/metadata/deletionTimestamp").is_some();
        let was = self.before.is_some() && !going(self.before());
        was && (self.after.is_none() || going(self.after()))
    }
}

fn parse(bytes: &Bytes) -> Value {
    serde_json::from_slice(bytes).unwrap_or(Value::Null)
}
