//! Whole fleets with faults: each fault of the design has a test that says what becomes of it, and a soak has what befalls networks,
//! disks, clocks, processes and clusters at random. What people put in, and what approvals, webhooks, floods and backups of the hub do, is
//! in tests of their own only.
//!
//! Every test runs from several seeds, with every promise watched: 3 seeds (1 where each runs twice), 100 with `ROUNDHOUSE_LONG=1`,
//! and the one of `ROUNDHOUSE_SEED=n` alone. A run that fails prints its seed, its timeline and the minimal trace.
//!
//! Beside them are: every byte of a journal damaged (F2), `durable/tests/damage.rs` and `crash.rs` of the API server; what
//! `roundhouse restore` says (F9), `processes/restored.rs` of the end-to-end tests; certificates over TLS and the audit log
//! (F34), `processes/refused.rs` there. The same of webhooks over sockets and TLS (F30) is `action/transport/tests.rs`.

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
mod identities;
mod inputs;
mod line;
mod looks;
mod members;
mod network;
mod oversize;
mod reconnect;
mod restored;
mod runs;
mod same;
mod soak;
mod time;
mod versions;
mod watches;
mod webhooks;
