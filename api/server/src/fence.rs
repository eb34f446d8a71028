//! Fencing: whoever writes as a leader says in the header [`TERM`] which term it writes in, and is refused as soon as a later
//! one has begun. A leader that was held still, or a request that was long on its way, changes nothing then, not even an
//! object that the new leader has not touched. Other API servers pass over the header: there the transition rules of the
//! epochs and resourceVersions do what they can.

use std::{fmt, str::FromStr};

use http::HeaderMap;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::Value;

use crate::{error::ApiError, object::at, server::Core, verbs::Call};

/// The header that says which term of which Lease a write is of: `<namespace>/<name>=<epoch>`.
pub const TERM: &str = "roundhouse-term";

/// On a Lease: the epoch of the last term that began.
pub(crate) const EPOCH: &str = "roundhouse.dev/epoch";

/// A term of a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub lease: String,
    /// The epoch that the leader has stored there, in the annotation `roundhouse.dev/epoch`.
    pub epoch: i64,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}={}", self.namespace, self.lease, self.epoch)
    }
}

/// A header that names no term.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the header {TERM} {0:?} names no term: <namespace>/<Lease>=<epoch>")]
pub struct NoTerm(String);

impl FromStr for Term {
    type Err = NoTerm;

    fn from_str(text: &str) -> Result<Self, NoTerm> {
        let parts = || {
            let (object, epoch) = text.split_once('=')?;
            let (namespace, lease) = object.split_once('/')?;
            Some((namespace, lease, epoch.parse().ok()?))
        };
        match parts() {
            Some((namespace, lease, epoch)) if !namespace.is_empty() && !lease.is_empty() => Ok(Term {
                namespace: namespace.to_owned(),
                lease: lease.to_owned(),
                epoch,
            }),
            _ => Err(NoTerm(text.to_owned())),
        }
    }
}

/// Keeps terms apart: no term begins while a write of an earlier one is between its check and the store.
#[derive(Debug, Default)]
pub(crate) struct Fence(RwLock<()>);

/// A request that may go on; held until it is stored.
#[derive(Debug)]
pub(crate) enum Passed<'a> {
    /// It reads, or says nothing of a term.
    Free,
    /// A write of a term that is the last one as long as this is held.
    InTerm(#[expect(dead_code, reason = "held")] RwLockReadGuard<'a, ()>),
    /// A write of a Lease: a term may begin with it.
    Turning(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'a, ()>),
}

impl Fence {
    /// Lets a request pass unless it is a write of a term that is over.
    ///
    /// # Errors
    /// 400 for a header that names no term, 409 for a term that is over.
    pub(crate) fn pass(&self, core: &Core, call: &Call, headers: &HeaderMap) -> Result<Passed<'_>, ApiError> {
        if matches!(call.verb, "get" | "list" | "watch") {
            return Ok(Passed::Free);
        }
        let begins = || match call.resource.kind == "Lease" {
            true => Some(Passed::Turning(self.0.write())),
            false => None,
        };
        let Some(header) = headers.get(TERM) else {
            return Ok(begins().unwrap_or(Passed::Free));
        };
        let text = String::from_utf8_lossy(header.as_bytes());
        let term: Term = text
            .parse()
            .map_err(|error: NoTerm| ApiError::bad_request(error.to_string()))?;
        let held = begins().unwrap_or_else(|| Passed::InTerm(self.0.read()));
        match present(core, &term) {
            Some(present) if present > term.epoch => {
                let Term {
                    namespace,
                    lease,
                    epoch,
                } = &term;
                let why = format!(
                    "this write is of term {epoch} of Lease {namespace}/{lease}, and term {present} has begun: another one leads"
                );
                Err(ApiError::new(409, "Conflict", why))
            }
            _ => Ok(held),
        }
    }
}

/// The epoch that the Lease of a term has now; `None` if it has none, and then nobody has begun a later term.
fn present(core: &Core, term: &Term) -> Option<i64> {
    let lease = core.read("coordination.k8s.io/v1", "Lease", &term.namespace, &term.lease)?;
    let annotations = at(&lease, &["metadata", "annotations"])?;
    annotations.get(EPOCH).and_then(Value::as_str)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_is_read_as_it_is_written_and_nothing_else_is_one() {
        let term = Term {
            namespace: "roundhouse-system".to_owned(),
            lease: "roundhouse-hub".to_owned(),
            epoch: 7,
        };
        assert_eq!(term.to_string().parse(), Ok(term));
        for odd in [
            "",
            "7",
            "a=7",
            "a/b",
            "a/b=",
            "a/b=x",
            "/b=7",
            "a/=7",
            "a/b=99999999999999999999",
        ] {
            assert_eq!(odd.parse::<Term>(), Err(NoTerm(odd.to_owned())), "{odd}");
        }
    }
}
