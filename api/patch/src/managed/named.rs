//! Parents that belong to a set by what is in it.

use super::{FieldSet, Step, set::Node, topology::Topology};

impl FieldSet {
    /// The set with every named field that leads to one of its fields: removing all of a struct removes the struct.
    /// Maps and elements of lists are in a set only by themselves.
    #[must_use]
    pub(super) fn with_named<T: Topology>(&self, topology: T) -> Self {
        let entry = |(step, node): (&Step, &Node)| {
            let (child, named) = match step {
                Step::Field(name) => {
                    let child = topology.child(name);
                    (child.node, child.named)
                }
                _ => (topology.element(), false),
            };
            let node = Node {
                member: node.member || (named && !node.below.is_empty()),
                below: node.below.with_named(child),
            };
            (step.clone(), node)
        };
        Self {
            entries: self.entries.iter().map(entry).collect(),
        }
    }
}
