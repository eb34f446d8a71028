//! `Table` answers: what `kubectl get` shows.

mod age;
mod builtin;
mod render;

pub(crate) use render::{Columns, scale_table, table};
