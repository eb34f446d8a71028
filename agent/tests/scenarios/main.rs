//! Scenarios, each named after its rule: an agent between two embedded API servers, in paused time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cloned_ref_to_slice_refs,
    reason = "tests state what must hold, and a bundle of one manifest reads like a bundle of two"
)]

mod applying;
mod deleting;
mod drifting;
mod failing;
mod owning;
mod parts;
mod quiet;
mod strategies;
mod world;
