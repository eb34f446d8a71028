//! What differs between two states of an object.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::{
    FieldSet, Relation, Step,
    topology::{Topology, element_step},
};

static NO_LIST: Value = Value::Null;
static NO_OBJECT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// The fields that differ.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Not there before.
    pub(super) added: FieldSet,
    /// There before with another value.
    pub(super) modified: FieldSet,
    /// No longer there.
    pub(super) removed: FieldSet,
}

impl Comparison {
    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// Compares two states.
pub(super) fn compare<T: Topology>(before: &Value, after: &Value, topology: T) -> Comparison {
    let mut walk = Walk {
        path: vec![],
        out: Comparison::default(),
    };
    walk.value(Some(before), Some(after), topology);
    walk.out
}

struct Walk {
    path: Vec<Step>,
    out: Comparison,
}

impl Walk {
    fn step<T: Topology>(&mut self, step: Step, before: Option<&Value>, after: Option<&Value>, topology: T) {
        self.path.push(step);
        self.value(before, after, topology);
        self.path.pop();
    }

    fn leaf(&mut self, before: Option<&Value>, after: Option<&Value>) {
        let set = match (before, after) {
            (None, Some(_)) => &mut self.out.added,
            (Some(_), None) => &mut self.out.removed,
            (Some(a), Some(b)) if a != b => &mut self.out.modified,
            _ => return,
        };
        set.insert(&self.path);
    }

    fn value<T: Topology>(&mut self, before: Option<&Value>, after: Option<&Value>, topology: T) {
        if before == after {
            return;
        }
        // Null stands for whatever the other side is.
        let telling = |v: Option<&Value>| v.filter(|v| !v.is_null()).map(|v| topology.relation(v));
        let relations = (telling(before), telling(after));
        let relation = match relations {
            (Some(a), Some(b)) if a != b => return self.leaf(before, after),
            (a, b) => a.or(b).unwrap_or(Relation::Atomic),
        };
        match relation {
            Relation::Atomic => return self.leaf(before, after),
            _ if is_empty(before) && is_empty(after) => return self.leaf(before, after),
            Relation::Granular => self.object(before, after, topology),
            Relation::Keyed | Relation::Set => self.list(before, after, relation, topology),
        }
        match (before, after) {
            (None, Some(_)) => self.out.added.insert(&self.path),
            (Some(_), None) => self.out.removed.insert(&self.path),
            _ => {}
        }
    }

    fn object<T: Topology>(&mut self, before: Option<&Value>, after: Option<&Value>, topology: T) {
        let old = before.and_then(Value::as_object);
        let new = after.and_then(Value::as_object);
        let is_new = |name: &&String| old.is_none_or(|old| !old.contains_key(*name));
        let names = old.into_iter().flat_map(Map::keys);
        let names = names.chain(new.into_iter().flat_map(Map::keys).filter(is_new));
        for name in names {
            let child = topology.child(name);
            let mut a = old.and_then(|fields| fields.get(name));
            let mut b = new.and_then(|fields| fields.get(name));
            // A struct that is always there is at least empty wherever its parent is.
            if child.inline {
                let empty = a
                    .or(b)
                    .map(|value| if value.is_array() { &NO_LIST } else { &*NO_OBJECT });
                a = a.or(old.and(empty));
                b = b.or(new.and(empty));
            }
            self.step(Step::field(name), a, b, child.node);
        }
    }

    fn list<T: Topology>(
        &mut self,
        before: Option<&Value>,
        after: Option<&Value>,
        relation: Relation,
        topology: T,
    ) {
        let old = index(before, relation, topology);
        let new = index(after, relation, topology);
        let none = vec![];
        let steps = old
            .keys()
            .chain(new.keys().filter(|step| !old.contains_key(*step)));
        for step in steps {
            let a = old.get(step).unwrap_or(&none);
            let b = new.get(step).unwrap_or(&none);
            if a.len() <= 1 && b.len() <= 1 {
                self.step(
                    step.clone(),
                    a.first().copied(),
                    b.first().copied(),
                    topology.element(),
                );
            } else if a != b {
                // Elements that cannot be told apart are one thing.
                self.path.push(step.clone());
                let set = match (a.is_empty(), b.is_empty()) {
                    (true, _) => &mut self.out.added,
                    (_, true) => &mut self.out.removed,
                    _ => &mut self.out.modified,
                };
                set.insert(&self.path);
                self.path.pop();
            }
        }
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// The elements of a list by what tells them apart.
fn index<T: Topology>(list: Option<&Value>, relation: Relation, topology: T) -> BTreeMap<Step, Vec<&Value>> {
    let mut out: BTreeMap<Step, Vec<&Value>> = BTreeMap::new();
    for (at, item) in list.and_then(Value::as_array).into_iter().flatten().enumerate() {
        // An element without a key is nobody's.
        if let Ok(step) = element_step(topology, relation, item, at) {
            out.entry(step).or_default().push(item);
        }
    }
    out
}
