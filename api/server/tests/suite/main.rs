//! What the API server answers, asked from outside: in process, and over TLS where the connection matters. One binary, as
//! everything is compiled and linked once more for each one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

mod agents;
mod apply;
mod audit;
mod certificates;
mod client;
mod definitions;
mod fence;
mod grants;
mod health;
mod heartbeats;
mod hostile;
mod immutable;
mod impersonation;
mod lifecycle;
mod limits;
mod pods;
mod raw;
mod rbac;
mod reviews;
mod seeds;
mod semantics;
mod strict;
mod tls;
mod versions;
mod watch;
mod workloads;
