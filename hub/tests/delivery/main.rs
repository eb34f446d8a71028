//! Whole deliveries with scripted agents that write Bundle statuses, on the embedded API server and on paused time; those that need
//! neither are on a real API server where `KUBEBUILDER_ASSETS` names one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of tests are tests, clippy just does not see it"
)]

mod agents;
mod asked;
mod real;
mod world;

mod acting;
mod commands;
mod decisions;
mod deletion;
mod doubled;
mod events;
mod evidence;
mod expiring;
mod fleet;
mod history;
mod hostile;
mod input;
mod killed;
mod lost;
mod meanwhile;
mod objects;
mod once;
mod overriding;
mod placements;
mod quiet;
mod reaction;
mod recorder;
mod redecision;
mod removals;
mod seed;
mod start;
mod steps;
mod stopped;
mod taking;
mod talk;
mod tenancy;
mod traits;
mod workflow;
