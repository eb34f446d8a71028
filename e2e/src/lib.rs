//! End-to-end tests, samples and benches; nothing depends on it.

pub mod conformance;
pub mod processes;
pub mod world;
