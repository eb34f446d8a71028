//! End-to-end tests, samples and benches; nothing depends on it.

pub mod binaries;
pub mod charts;
pub mod conformance;
pub mod double;
pub mod figure;
pub mod kubectl;
pub mod load;
pub mod patience;
pub mod process;
pub mod real;
pub mod transcript;
pub mod world;

pub use roundhouse_apiserver::envtest::skipped;
