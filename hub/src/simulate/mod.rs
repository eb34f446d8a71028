//! The workload simulator and the fleet harness: hub, agents and members in one process.
//!
//! [`workloads`] plays the controllers and kubelets that a bare API server lacks; it is an ordinary API client, so that
//! it also serves a real API server without nodes. [`Fleet`] is the harness: an embedded hub and any number of members,
//! each with its agent and its simulated workloads, joined by in-process services. It runs on tokio's time, paused or
//! not, and from a seed.

mod clock;
pub mod fault;
mod harness;
pub mod monitor;
mod raw;
pub mod run;
pub mod trace;
pub mod workloads;

pub use clock::TokioClock;
use clock::begins;
pub(crate) use harness::member_spec;
pub use harness::{
    Answer, AnswerBody, Clocks, Configure, Ends, Fleet, FleetOptions, HUB, HarnessError, MemberSpec,
    OTHER_HUB, Overdue, SOMEBODY, Sent, Standing, Stores, Through, WORKLOADS, Wire, Wires,
};
