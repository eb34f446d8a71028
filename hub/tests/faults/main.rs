//! Whole fleets with faults: each fault of the design has a test that says what becomes of it, and a soak has them all.
//!
//! Every test runs from several seeds, with every promise watched: 3 seeds, 100 with `ROUNDHOUSE_LONG=1`, and the one of
//! `ROUNDHOUSE_SEED=n` alone. A run that fails prints its seed, its timeline and the minimal trace.
//!
//! F2 (a torn or damaged journal) and F9 (an old backup) are tested where they are decided: `durable/tests/damage.rs` and
//! `crash.rs` of the API server, and `processes/restored.rs` of the end-to-end tests.

mod agents;
mod hub;
mod inputs;
mod looks;
mod members;
mod network;
mod runs;
mod same;
mod seeing;
mod soak;
mod time;
mod watches;
