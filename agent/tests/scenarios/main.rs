//! Scenarios, each named after its rule: an agent between two API servers. They are embedded, in paused time; where
//! `KUBEBUILDER_ASSETS` names a directory with `etcd` and `kube-apiserver`, they are real.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cloned_ref_to_slice_refs,
    reason = "tests state what must hold, and a bundle of one manifest reads like a bundle of two"
)]

mod alone;
mod applying;
mod asking;
mod converging;
mod copying;
mod decoding;
mod deleting;
mod drifting;
mod executor;
mod failing;
mod fighting;
mod hearing;
mod interrupted;
mod killing;
mod late;
mod ledger;
mod many;
mod observing;
mod once;
mod owning;
mod parts;
mod quiet;
mod real;
mod refusing;
mod removing;
mod restored;
mod resuming;
mod rights;
mod rows;
mod sharing;
mod staying;
mod strategies;
mod unserved;
mod watching;
mod waves;
mod world;
