//! `Table` answers: what `kubectl get` shows.

mod age;
mod builtin;
mod jsonpath;
mod render;

pub(crate) use jsonpath::JsonPath;
pub(crate) use render::{Columns, table};
