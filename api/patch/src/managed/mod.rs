//! Who set which field: `metadata.managedFields` and server-side apply, as Kubernetes 1.36 does them; pure.
//!
//! - [`FieldSet`] is a set of fields, read from and written as `fieldsV1`.
//! - [`apply`] merges what a field manager applied into the live object, or says with whom it conflicts.
//! - [`update`] records any other write.
//! - [`owners`] and [`owners_at`] tell who set a field; they need no schema.
//!
//! How lists and maps merge is told by a [`Topology`]; [`built_in`] gives that of every built-in kind. The semantics
//! are those of Kubernetes' structured-merge-diff ("fieldpath", "typed", "merge") and of the managers that the API
//! server stacks on it (KEP-555).

mod apply;
mod compare;
mod conflict;
mod entry;
mod error;
mod fields;
mod merge;
mod named;
mod owners;
mod remove;
mod set;
mod step;
mod table;
mod topology;
mod update;
mod wire;

pub use apply::{Applied, Apply, apply};
pub use conflict::{Conflict, Conflicts};
pub use entry::{Entry, Operation, is_reset, read_entries, write_entries};
pub use error::{ApplyError, ManagedError};
pub use owners::{Owner, owners, owners_at};
pub use set::FieldSet;
pub use step::{Step, print_path};
pub use topology::{BuiltIn, Child, Relation, Topology, built_in};
pub use update::{Change, Scope, Write, update};

#[cfg(test)]
mod tests;
