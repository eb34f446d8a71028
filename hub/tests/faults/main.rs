//! Whole fleets with faults: each fault of the design has a test that says what becomes of it, and a soak has them all.
//!
//! Every test runs from several seeds, with every promise watched: 3 seeds, 100 with `ROUNDHOUSE_LONG=1`, and the one of
//! `ROUNDHOUSE_SEED=n` alone. A run that fails prints its seed, its timeline and the minimal trace.
//!
//! F2 (a torn or damaged journal) and F9 (an old backup) are tested where they are decided: `durable/tests/damage.rs` and
//! `crash.rs` of the API server, and `processes/restored.rs` of the end-to-end tests. F34 (identities that are expired, replayed, revoked or
//! somebody else's) is `processes/refused.rs` there, with the audit log; that an agent asks for and is told of nothing else is
//! watched in every run here (P13). What webhooks may do to the hub itself (F30: redirects, huge bodies) is
//! `action/transport/tests.rs`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of tests are tests, clippy just does not see it"
)]

mod agents;
mod applications;
mod approvals;
mod flood;
mod hub;
mod inputs;
mod line;
mod looks;
mod members;
mod network;
mod oversize;
mod reconnect;
mod runs;
mod same;
mod soak;
mod time;
mod watches;
