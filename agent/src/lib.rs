//! The agent that applies bundles in a member cluster.
//!
//! An agent dials the hub; the hub never dials a member. It watches the Bundles of its own namespace, applies each in
//! the member by the three-way merge of `kubectl apply`, watches what it applied, and reports into the Bundle's status.
//!
//! | module | what |
//! | --- | --- |
//! | `agent` | start, stop, and what the tasks share |
//! | `beginning` | which hub it is, and what there is until the hub has answered |
//! | `watch` | what wakes a bundle: its Bundle on the hub, its objects in the member |
//! | `worker` | one bundle, one pass at a time |
//! | `apply` | the pipeline of a pass, a module per stage; the decisions are pure |
//! | `drift` | differences that appear later: which, whether they are any, and who fights over them |
//! | `ledger` | AppliedBundle: written before the member is touched |
//! | `observe` | readiness, conditions, feedback and replicas of live objects |
//! | [`health`] | whether the agent lives and works, for probes |
//! | [`port`] | answers something small over plain HTTP |
//! | [`identity`] | who the agent is on its hub: invited, given a certificate, renewed |
//! | `report` | the one status of a Bundle |
//! | `restart` | a task that breaks is begun anew |
//! | [`silence`] | tells of watches on which nothing comes any more |
//! | [`rights`] | what the agent asks of its member, and what for |
//! | `preflight`, `reviews` | what the executor of a bundle lacks, asked beforehand |
//! | `secrecy` | what is left of a member's words about a Secret |
//! | [`preview`] | what a pass would do, without doing it |
//!
//! Architecture invariant: nothing is deleted because something is absent. An object goes when it is missing from a
//! bundle that was read whole, or when the bundle's deletion was written down first; everything else is held.
//!
//! Architecture invariant: in steady state an agent writes nothing but its Lease, neither to the hub nor to the member.

mod agent;
mod apply;
mod beginning;
mod bundle;
pub mod client;
mod config;
mod delay;
mod drift;
mod error;
mod executor;
mod facts;
mod file;
pub mod health;
pub mod identity;
mod install;
mod kinds;
mod lately;
mod lease;
mod ledger;
#[doc(hidden)]
pub mod measure;
mod member;
mod object;
mod observe;
mod path;
pub mod port;
mod preflight;
pub mod preview;
mod report;
mod restart;
mod reviews;
pub mod rights;
mod secrecy;
pub mod silence;
mod vanished;
mod watch;
mod worker;

pub use agent::run;
pub use config::Config;
pub use delay::{Jitter, SeededJitter, SharedJitter};
pub use error::AgentError;
pub use facts::{LabelError, Labels};
