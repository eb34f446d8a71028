//! Sets of fields.

use std::collections::{BTreeMap, btree_map};

use super::Step;

/// A set of fields of one object, ordered. A field is in it by itself: its parents and children need not be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSet {
    // Invariant: no entry that is neither a member nor leads to one.
    pub(super) entries: BTreeMap<Step, Node>,
}

/// What a set says about a field and below.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Node {
    pub(super) member: bool,
    pub(super) below: FieldSet,
}

impl Node {
    fn is_nothing(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The set of these fields.
    #[must_use]
    pub fn of(paths: &[&[Step]]) -> Self {
        let mut set = Self::default();
        paths.iter().for_each(|path| set.insert(path));
        set
    }

    /// Whether no field is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many fields are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        let of = |node: &Node| usize::from(node.member) + node.below.len();
        self.entries.values().map(of).sum()
    }

    /// Adds a field. The empty path is no field: nobody owns an object as such.
    pub fn insert(&mut self, path: &[Step]) {
        let Some((last, parents)) = path.split_last() else {
            return;
        };
        let mut set = self;
        for step in parents {
            set = &mut set.node(step).below;
        }
        set.node(last).member = true;
    }

    fn node(&mut self, step: &Step) -> &mut Node {
        // Looked up first: most steps are there already, and cloning one allocates.
        if !self.entries.contains_key(step) {
            self.entries.insert(step.clone(), Node::default());
        }
        self.entries
            .get_mut(step)
            .unwrap_or_else(|| unreachable!("it was put there"))
    }

    /// Whether this very field is in it.
    #[must_use]
    pub fn has(&self, path: &[Step]) -> bool {
        match path.split_last() {
            None => false,
            Some((last, parents)) => self
                .below(parents)
                .is_some_and(|set| set.entries.get(last).is_some_and(|node| node.member)),
        }
    }

    /// The fields below a path, as paths from there.
    #[must_use]
    pub fn below(&self, path: &[Step]) -> Option<&Self> {
        path.iter()
            .try_fold(self, |set, step| set.entries.get(step).map(|node| &node.below))
    }

    /// Every field, in order, parents before children.
    #[must_use]
    pub fn paths(&self) -> Vec<Vec<Step>> {
        let mut out = vec![];
        self.collect(&mut vec![], &mut out);
        out
    }

    fn collect(&self, path: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
        // As Kubernetes walks: the fields right here, then what is below them.
        let members = self.entries.iter().filter(|(_, node)| node.member);
        out.extend(members.map(|(step, _)| path.iter().chain([step]).cloned().collect()));
        for (step, node) in &self.entries {
            path.push(step.clone());
            node.below.collect(path, out);
            path.pop();
        }
    }

    /// The fields of either.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        for (step, node) in other.entries {
            match self.entries.entry(step) {
                btree_map::Entry::Vacant(entry) => {
                    entry.insert(node);
                }
                btree_map::Entry::Occupied(mut entry) => {
                    let have = entry.get_mut();
                    have.member |= node.member;
                    have.below = std::mem::take(&mut have.below).union(node.below);
                }
            }
        }
        self
    }

    /// The fields of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let both = |(step, node): (&Step, &Node)| {
            let that = other.entries.get(step)?;
            let node = Node {
                member: node.member && that.member,
                below: node.below.intersection(&that.below),
            };
            (!node.is_nothing()).then(|| (step.clone(), node))
        };
        Self {
            entries: self.entries.iter().filter_map(both).collect(),
        }
    }

    /// The fields that are not in `other`. A parent in `other` takes no children away.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        self.entries.retain(|step, node| {
            let Some(that) = other.entries.get(step) else {
                return true;
            };
            node.member &= !that.member;
            node.below = std::mem::take(&mut node.below).difference(&that.below);
            !node.is_nothing()
        });
        self
    }

    /// The fields that are neither in `other` nor below one that is.
    #[must_use]
    pub fn without(mut self, other: &Self) -> Self {
        self.entries.retain(|step, node| match other.entries.get(step) {
            None => true,
            Some(that) if that.member => false,
            Some(that) => {
                node.below = std::mem::take(&mut node.below).without(&that.below);
                !node.is_nothing()
            }
        });
        self
    }

    /// The part that starts with this step, as paths from the root.
    #[must_use]
    pub fn only(mut self, step: &Step) -> Self {
        self.entries.retain(|have, _| have == step);
        self
    }
}
