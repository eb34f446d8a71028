//! Conflicts of an apply, worded as Kubernetes words them.

use std::{collections::BTreeMap, fmt};

use super::{Entry, Operation, Step, print_path};

/// A field that an apply would change, and who owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Name of the field manager that owns it.
    pub manager: String,
    /// The manager as a message shows it: `"kubectl-edit" using apps/v1`, with its subresource if it has one.
    pub shown: String,
    /// The field.
    pub path: Vec<Step>,
}

impl Conflict {
    pub(super) fn new(entry: &Entry, path: Vec<Step>) -> Self {
        let mut shown = format!("{:?}", entry.manager);
        if !entry.subresource.is_empty() {
            shown += &format!(" with subresource {:?}", entry.subresource);
        }
        if entry.operation == Operation::Update {
            shown += &format!(" using {}", entry.api_version);
        }
        Self {
            manager: entry.manager.clone(),
            shown,
            path,
        }
    }

    /// The field, such as `.spec.replicas`.
    #[must_use]
    pub fn field(&self) -> String {
        print_path(&self.path)
    }

    /// The message of a `FieldManagerConflict` cause.
    #[must_use]
    pub fn message(&self) -> String {
        format!("conflict with {}", self.shown)
    }
}

/// At least one conflict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

/// The message of the whole refusal: `Apply failed with 1 conflict: conflict with "x": .spec.replicas`.
impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(
                out,
                "Apply failed with 1 conflict: {}: {}",
                one.message(),
                one.field()
            );
        }
        let mut by_manager: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for conflict in &self.0 {
            by_manager
                .entry(&conflict.shown)
                .or_default()
                .push(conflict.field());
        }
        let lines = by_manager.into_iter().flat_map(|(manager, fields)| {
            let fields = fields.into_iter().map(|field| format!("- {field}"));
            std::iter::once(format!("conflicts with {manager}:")).chain(fields)
        });
        let lines: Vec<String> = lines.collect();
        write!(
            out,
            "Apply failed with {} conflicts: {}",
            self.0.len(),
            lines.join("\n")
        )
    }
}
