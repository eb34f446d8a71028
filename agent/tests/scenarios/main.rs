//! Scenarios, each named after its rule: an agent between two embedded API servers, in paused time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests state what must hold"
)]

mod applying;
mod deleting;
mod drifting;
mod failing;
mod owning;
mod quiet;
mod world;
