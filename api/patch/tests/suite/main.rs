//! Tests of the crate as others use it: recorded cases, rules over random documents, and kubectl where it is installed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

mod corpus;
mod keys;
mod kubectl;
mod model;
mod properties;
mod recorded;
