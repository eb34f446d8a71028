//! The workload simulator and the fleet harness: hub, agents and members in one process.
//!
//! [`workloads`] plays the controllers and kubelets that a bare API server lacks; it is an ordinary API client, so that
//! it also serves a real API server without nodes.

mod clock;
pub mod workloads;

pub use clock::TokioClock;
