//! Whole fleets with faults: each fault of the design has a test that says what becomes of it, and a soak has them all.
//!
//! Every test runs from several seeds, with every promise watched: 3 seeds, 100 with `ROUNDHOUSE_LONG=1`, and the one of
//! `ROUNDHOUSE_SEED=n` alone. A run that fails prints its seed, its timeline and the minimal trace.

mod hub;
mod runs;
mod same;
mod soak;
