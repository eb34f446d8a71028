//! Who asks, and what.

use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Somebody who asks an API server of a fleet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// The controllers of a hub; `start` counts from 1 how often they were started.
    Hub {
        /// Its name in the election.
        name: Arc<str>,
        /// Which start.
        start: u32,
    },
    /// The agent of a cluster.
    Agent(Arc<str>),
    /// Who plays the controllers and kubelets of a member.
    Workloads(Arc<str>),
    /// Anybody else, such as an autoscaler.
    Other(Arc<str>),
}

impl Who {
    /// The cluster whose agent it is.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Who::Agent(cluster) => Some(cluster),
            _ => None,
        }
    }

    /// Whether it is a hub.
    pub fn is_hub(&self) -> bool {
        matches!(self, Who::Hub { .. })
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Hub { name, start } => write!(f, "hub {name}#{start}"),
            Who::Agent(cluster) => write!(f, "agent {cluster}"),
            Who::Workloads(cluster) => write!(f, "workloads {cluster}"),
            Who::Other(name) => f.write_str(name),
        }
    }
}

/// What a path of the API names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Table: `plural.group`, or `plural` for core kinds.
    pub table: String,
    /// Namespace; empty for all of them, and for what has none.
    pub namespace: String,
    /// Name; empty for all of them.
    pub name: String,
    /// `status`, `scale`, …; empty for the object itself.
    pub part: String,
}

impl Target {
    /// Reads `/api/v1/…` and `/apis/<group>/<version>/…`; `None` for other paths, such as discovery.
    pub fn of(path: &str) -> Option<Target> {
        let mut words = path.split('/').filter(|word| !word.is_empty());
        let group = match words.next()? {
            "api" => "",
            "apis" => words.next()?,
            _ => return None,
        };
        words.next()?;
        let mut rest: Vec<&str> = words.collect();
        let mut namespace = "";
        // The namespace itself, and its parts, are no objects inside it.
        if rest.len() > 2 && rest[0] == "namespaces" && !["status", "finalize"].contains(&rest[2]) {
            namespace = rest[1];
            rest.drain(..2);
        }
        let word = |at: usize| rest.get(at).map_or(String::new(), |word| (*word).to_owned());
        let plural = rest.first()?;
        Some(Target {
            table: match group {
                "" => (*plural).to_owned(),
                group => format!("{plural}.{group}"),
            },
            namespace: namespace.to_owned(),
            name: word(1),
            part: word(2),
        })
    }

    /// Whether this is the object.
    pub fn is(&self, key: &Key) -> bool {
        *key.table == *self.table && *key.namespace == *self.namespace && *key.name == *self.name
    }
}

/// A request that an API server was asked.
#[derive(Debug)]
pub struct Asked {
    /// Who asked.
    pub who: Who,
    /// Which server.
    pub server: Arc<str>,
    /// How.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The query.
    pub query: String,
    /// What the path names.
    pub target: Option<Target>,
    /// It arrived when whoever asked may have waited no longer, so long after it was sent, and goes by what was so then.
    pub overdue: Option<Duration>,
    /// How long before it arrived it was sent, whether or not anybody waits.
    pub under_way: Duration,
    body: Bytes,
    parsed: OnceLock<Option<Value>>,
    /// What was written for it, and the revisions.
    written: Mutex<Vec<(Key, u64)>>,
}

impl Asked {
    /// A request.
    pub fn new(who: Who, server: &Arc<str>, method: &Method, uri: &http::Uri, body: Bytes) -> Self {
        Asked {
            who,
            server: server.clone(),
            method: method.clone(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            target: Target::of(uri.path()),
            overdue: None,
            under_way: Duration::ZERO,
            body,
            parsed: OnceLock::new(),
            written: Mutex::default(),
        }
    }

    /// The body, if it is JSON.
    pub fn body(&self) -> Option<&Value> {
        let parse = || serde_json::from_slice(&self.body).ok();
        self.parsed.get_or_init(parse).as_ref()
    }

    /// Whether it watches.
    pub fn watches(&self) -> bool {
        self.query
            .split('&')
            .any(|part| part == "watch=true" || part == "watch=1")
    }

    /// The version that the write says it replaces.
    pub fn names_version(&self) -> Option<u64> {
        let pointer = match self.method {
            Method::PUT | Method::PATCH => "/metadata/resourceVersion",
            Method::DELETE => "/preconditions/resourceVersion",
            _ => return None,
        };
        let version = self.body()?.pointer(pointer)?.as_str()?.parse().ok()?;
        (version > 0).then_some(version)
    }

    /// Notes a write that was made for it; whether it is the first one of this object.
    pub(super) fn wrote(&self, key: &Key, revision: u64) -> bool {
        let mut written = self.written.lock();
        let first = !written.iter().any(|(other, _)| other == key);
        written.push((key.clone(), revision));
        first
    }

    /// What was written for it.
    pub fn written(&self) -> Vec<(Key, u64)> {
        self.written.lock().clone()
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Asked>>> = const { RefCell::new(None) };
}

/// Does something on behalf of a request: what the store is told meanwhile is its doing. A server answers by plain calls,
/// so that nobody else has a turn in between.
pub(super) fn on_behalf_of<T>(asked: &Arc<Asked>, does: impl FnOnce() -> T) -> T {
    let before = CURRENT.with(|current| current.replace(Some(asked.clone())));
    let done = does();
    CURRENT.with(|current| current.replace(before));
    done
}

/// The request that is being answered on this thread.
pub(super) fn current() -> Option<Arc<Asked>> {
    CURRENT.with(|current| current.borrow().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_objects() {
        for (path, expected) in [
            ("/api/v1/namespaces", "namespaces|||"),
            ("/api/v1/namespaces/n", "namespaces||n|"),
            ("/api/v1/namespaces/n/status", "namespaces||n|status"),
            ("/api/v1/namespaces/n/configmaps", "configmaps|n||"),
            ("/api/v1/namespaces/n/configmaps/a", "configmaps|n|a|"),
            (
                "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c/bundles/b/status",
                "bundles.roundhouse.dev|cluster-c|b|status",
            ),
            (
                "/apis/roundhouse.dev/v1alpha1/clusters/c",
                "clusters.roundhouse.dev||c|",
            ),
        ] {
            let target = Target::of(path).unwrap();
            let Target {
                table,
                namespace,
                name,
                part,
            } = target;
            assert_eq!(format!("{table}|{namespace}|{name}|{part}"), expected, "{path}");
        }
        for path in ["/version", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz"] {
            assert_eq!(Target::of(path), None, "{path}");
        }
    }
}
