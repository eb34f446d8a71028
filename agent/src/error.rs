//! What can go wrong: with an agent as a whole, and with one call to an API server.

use crate::apply::immutable::refusals;
use crate::object::ObjectKey;
use kube::core::Status;
use roundhouse_api::late::is_decided;
use std::time::Duration;

/// Why an agent gave up. Everything that may pass is retried instead.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The hub behind the namespace is another one now: every marker and ledger in the member names the old one.
    #[error(
        "cluster {cluster}: Lease {lease} names hub {found}, but this agent works for hub {expected}; was the hub installed anew? Restart the agent to work for the new one: objects of the old one are left alone"
    )]
    HubChanged {
        /// The cluster.
        cluster: String,
        /// Namespace and name of the Lease.
        lease: String,
        /// Hub id on the Lease now.
        found: String,
        /// Hub id that the agent started with.
        expected: String,
    },
    /// A task of the agent ended by a defect of ours.
    #[error("cluster {cluster}: task {task} ended by a defect: {reason}")]
    Defect {
        /// The cluster.
        cluster: String,
        /// Which task.
        task: &'static str,
        /// What the runtime says.
        reason: String,
    },
}

/// Why a call to an API server has no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// Nobody answers about the kinds of a group version that is served.
    #[error(
        "the cluster does not answer which kinds it serves in version {version} of group {group:?}, which it has: what there is of them is not known; look for what stands between it and the agent"
    )]
    Undiscovered {
        /// Group; empty for core.
        group: String,
        /// Version.
        version: String,
    },
    /// The objects of a kind cannot be seen, although its definition is there.
    #[error(
        "{kind} in group {group} has a definition, but no version of it is served: what there is of it is not known; serve one of its versions, or delete the definition"
    )]
    Unserved {
        /// Group.
        group: String,
        /// Kind.
        kind: String,
    },
}

/// How a failed call is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 404 that names an object: there is no such object.
    NotFound,
    /// Any other 404: nobody answers at this path, because the API version is no longer served or something in between
    /// does not know the way. It says nothing about objects.
    NotServed,
    /// 409: something changed meanwhile, or exists already.
    Conflict,
    /// 410: the history needed is gone.
    Gone,
    /// Passes by itself: 429, 5xx, no connection, time-out.
    Passing(&'static str),
    /// Stays until somebody acts.
    Lasting(&'static str),
}

impl Fault {
    /// Any 404: the object is not there, or nobody answers at its path.
    pub(crate) fn is_404(self) -> bool {
        matches!(self, Fault::NotFound | Fault::NotServed)
    }
}

impl CallError {
    /// Sorts the failure.
    pub(crate) fn fault(&self) -> Fault {
        let error = match self {
            CallError::Kube(error) => error,
            CallError::Timeout(_) => return Fault::Passing("Timeout"),
            CallError::Undiscovered { .. } | CallError::Unserved { .. } => {
                return Fault::Passing("NotServed");
            }
        };
        let kube::Error::Api(status) = error else {
            return Fault::Passing("Unreachable");
        };
        match status.code {
            404 if missing(status).is_some() => Fault::NotFound,
            404 => Fault::NotServed,
            409 => Fault::Conflict,
            410 => Fault::Gone,
            401 => Fault::Lasting("Unauthorized"),
            403 if is_terminating(status) => Fault::Passing("NamespaceTerminating"),
            403 => Fault::Lasting("Forbidden"),
            413 => Fault::Lasting("TooLarge"),
            422 if !refusals(status).is_empty() => Fault::Lasting("Immutable"),
            400 | 422 => Fault::Lasting("Invalid"),
            429 => Fault::Passing("TooManyRequests"),
            500..=599 => Fault::Passing("ServerError"),
            _ => Fault::Lasting("Refused"),
        }
    }

    /// Whether it may not have been heard at all: no connection, no answer in time, or only what stands before the server
    /// answers.
    pub(crate) fn is_unheard(&self) -> bool {
        match self {
            CallError::Kube(kube::Error::Api(status)) => matches!(status.code, 502..=504),
            CallError::Kube(_) | CallError::Timeout(_) => true,
            CallError::Undiscovered { .. } | CallError::Unserved { .. } => false,
        }
    }

    /// Whether it may have done what it asks for, or do so yet: nobody who decides about it has answered.
    pub(crate) fn is_undecided(&self) -> bool {
        let decided = self
            .status()
            .map(|status| is_decided(status.code, &status.message));
        decided.map_or(self.is_unheard(), |decided| !decided)
    }

    /// Whether the server says that this very object is missing, or its namespace.
    pub(crate) fn says_missing(&self, key: &ObjectKey) -> bool {
        let status = self.status().filter(|_| self.fault() == Fault::NotFound);
        let Some((kind, name)) = status.and_then(missing) else {
            return false;
        };
        name == key.name || kind == "namespaces" && name == key.namespace
    }

    /// The API server's own words, if it answered.
    pub(crate) fn status(&self) -> Option<&Status> {
        match self {
            CallError::Kube(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }

    /// As [`CallError::message`], with what is behind it: `…: tcp connect error: Connection refused`. It may differ from
    /// one time to the next; for people at a prompt, not for conditions.
    pub(crate) fn reasons(&self) -> String {
        let mut text = self.message();
        let mut next = match self {
            CallError::Kube(error) => std::error::Error::source(error),
            CallError::Timeout(_) | CallError::Undiscovered { .. } | CallError::Unserved { .. } => None,
        };
        while let Some(error) = next {
            let behind = error.to_string();
            if !text.contains(&behind) {
                text = format!("{text}: {behind}");
            }
            next = error.source();
        }
        text
    }

    /// What a person should know, without the decoration of the transport.
    pub(crate) fn message(&self) -> String {
        match self {
            CallError::Kube(kube::Error::Api(status)) => status.message.clone(),
            other => other.to_string(),
        }
    }
}

/// Resource and name of what a 404 is about. An API server says so of an object that it does not have
/// (`errors.NewNotFound` of apimachinery), and nothing of the kind about a path that it does not serve, which it answers
/// with a plain `404 page not found`.
fn missing(status: &Status) -> Option<(&str, &str)> {
    let details = status.details.as_ref().filter(|_| status.reason == "NotFound")?;
    let is_named = !details.kind.is_empty() && !details.name.is_empty();
    is_named.then_some((details.kind.as_str(), details.name.as_str()))
}

/// Whether a request was forbidden only because its namespace is on its way out (Kubernetes' `NamespaceLifecycle`
/// admission); it may be made again when it is gone.
fn is_terminating(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_go_to_the_bottom() {
        #[derive(Debug, thiserror::Error)]
        #[error("client error (Connect)")]
        struct Connect(#[source] std::io::Error);
        let refused = std::io::Error::other("connection refused");
        let error = CallError::Kube(kube::Error::Service(Box::new(Connect(refused))));
        assert_eq!(
            error.reasons(),
            "ServiceError: client error (Connect): connection refused"
        );
    }

    /// A path that is not served, as Kubernetes and others say it, is no word about an object.
    #[test]
    fn a_404_says_that_an_object_is_missing_only_if_it_names_it() {
        let key = ObjectKey {
            group: "example.com".into(),
            kind: "Widget".into(),
            namespace: "shop".into(),
            name: "w".into(),
        };
        let named = |kind: &str, name: &str| {
            let details = serde_json::json!({"group": "example.com", "kind": kind, "name": name});
            serde_json::json!({"code": 404, "reason": "NotFound", "details": details})
        };
        for (status, fault, is_missing) in [
            (named("widgets", "w"), Fault::NotFound, true),
            (named("namespaces", "shop"), Fault::NotFound, true),
            (named("widgets", "other"), Fault::NotFound, false),
            (named("widgets", ""), Fault::NotServed, false),
            (named("", "w"), Fault::NotServed, false),
            (
                serde_json::json!({"code": 404, "reason": "NotFound",
                    "message": "the server could not find the requested resource"}),
                Fault::NotServed,
                false,
            ),
            (
                serde_json::json!({"code": 404, "reason": "Failed to parse error data", "message": "404 page not found"}),
                Fault::NotServed,
                false,
            ),
        ] {
            let parsed: Status = serde_json::from_value(status.clone()).unwrap();
            let error = CallError::Kube(kube::Error::Api(Box::new(parsed)));
            assert_eq!(error.fault(), fault, "{status}");
            assert_eq!(error.says_missing(&key), is_missing, "{status}");
        }
    }

    #[test]
    fn failures_are_sorted_by_code() {
        let fault = |code: u16, message: &str| {
            let status = Status {
                code,
                message: message.to_owned(),
                ..Status::default()
            };
            CallError::Kube(kube::Error::Api(Box::new(status))).fault()
        };
        for (code, message, expected) in [
            (404, "404 page not found", Fault::NotServed),
            (409, "", Fault::Conflict),
            (410, "", Fault::Gone),
            (
                422,
                "spec.selector: field is immutable",
                Fault::Lasting("Immutable"),
            ),
            (422, "bad", Fault::Lasting("Invalid")),
            (403, "", Fault::Lasting("Forbidden")),
            (503, "", Fault::Passing("ServerError")),
            (429, "", Fault::Passing("TooManyRequests")),
        ] {
            assert_eq!(fault(code, message), expected, "{code} {message}");
        }
        let terminating = serde_json::json!({"code": 403, "details": {"causes": [
            {"reason": "NamespaceTerminating", "message": "namespace shop is being terminated", "field": ""}]}});
        let terminating: Status = serde_json::from_value(terminating).unwrap();
        assert_eq!(
            CallError::Kube(kube::Error::Api(Box::new(terminating))).fault(),
            Fault::Passing("NamespaceTerminating")
        );
        assert_eq!(
            CallError::Timeout(Duration::from_secs(1)).fault(),
            Fault::Passing("Timeout")
        );
    }
}
