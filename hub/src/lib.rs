//! The dispatcher hub: placement, workflow, dispatch, and the command line.
//!
//! Decisions are pure functions ([`placement`], [`render`], [`workflow`], the plans of [`dispatch`]); the controllers in
//! [`application`] and [`cluster`] fetch, call and write.

// What is printed there panics where nobody can be told; `cli::terminal` has what does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod action;
pub mod application;
pub mod cli;
pub mod cluster;
pub mod dispatch;
pub mod endpoint;
pub mod explain;
pub mod fleet;
pub mod leader;
pub mod metrics;
pub mod placement;
pub mod plan;
mod relist;
pub mod render;
pub mod restored;
pub mod rights;
pub mod run;
mod silence;
pub mod simulate;
pub mod steady;
pub mod tenancy;
pub mod words;
pub mod workflow;
mod writes;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
