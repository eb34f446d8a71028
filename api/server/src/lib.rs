//! The embedded Kubernetes API server: one `tower::Service` that speaks the Kubernetes API.
//!
//! In process it is handed to `kube::Client::new`; over the network hyper serves it behind rustls. It is generic:
//! driven by a table of kinds and by custom resource definitions, with no handler per kind.
//!
//! Architecture invariant: nothing below [`Server::service`] waits. A request is answered from the store by plain
//! function calls; what follows from a write (collection of dependents, emptying of namespaces) happens on the same
//! task before the answer.

mod admission;
mod audit;
mod auth;
mod body;
mod clock;
mod collect;
mod count;
mod crd;
mod csr;
mod discovery;
#[cfg(feature = "envtest")]
pub mod envtest;
mod error;
mod fence;
mod flow;
mod health;
mod kinds;
mod managed;
mod metrics;
mod names;
mod object;
mod output;
mod paging;
mod request;
mod schema;
mod selector;
mod serve;
mod server;
mod service;
mod store;
mod strict;
mod table;
mod verbs;
mod watch;
mod yaml;

pub use audit::{AuditFile, AuditLimits, AuditSink};
pub use auth::{
    Action, AllowAuthenticated, Attributes, Authority, AuthorityError, Authorizer, ClientCertificate,
    Decision, Identity, Kubeconfig, PolicyRule, Rbac, TokenKey, write_private,
};
pub use body::ApiBody;
pub use clock::{Clock, system_clock};
pub use count::WriteCounter;
pub use csr::CertificateRequest;
pub use error::{ApiError, Cause, Details};
pub use fence::{NoTerm, TERM, Term};
pub use schema::Structure;
pub use selector::{LabelSelector, Labels, SelectorError};
pub use serve::{ServeOptions, serve, serve_with};
pub use server::{Server, ServerBuilder};
pub use service::ApiService;
pub use store::{
    Backup, Change, Disk, DiskFailures, DiskFile, DurableOptions, DurableStore, Event, EventKind, Expect,
    Failure, FaultyDisk, Folder, From, Gauge, JournalError, Kept, Key, Listing, MemoryStore, Range, Record,
    Render, Settling, Store, StoreLayer, StoreLimits, Subscription, TooOld, Unsettled, WriteError,
    make_directory,
};
