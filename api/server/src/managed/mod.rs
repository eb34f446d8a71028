//! `metadata.managedFields`: what a write makes of them. The rules are in [`roundhouse_patch::managed`].

mod allocated;
mod topology;

pub(crate) use allocated::allocated;
pub(crate) use topology::topology;

use roundhouse_patch::managed::{
    Change, Entry, FieldSet, Scope, Step, Write, is_reset, read_entries, write_entries,
};
use serde_json::Value;

use crate::{
    kinds::Resource,
    object::{self, same_but_version, set_meta},
    verbs::Part,
};

/// Longest name of a field manager, in bytes.
pub(crate) const MAX_MANAGER: usize = 128;

/// Who the server's own writes are recorded as: those of Kubernetes' controller manager, whose work they are.
pub(crate) const CONTROLLER: &str = "kube-controller-manager";

/// Who writes, as managed fields name it.
#[derive(Debug, Clone)]
pub(crate) enum Writer {
    /// A write that sets fields by changing them.
    Update {
        /// The field manager.
        manager: String,
        /// The subresource it writes through; empty for the object itself.
        subresource: &'static str,
    },
    /// A server-side apply: these are the managed fields it makes.
    Applied(Vec<Entry>),
}

impl Writer {
    /// The server itself, doing a controller's work on this part of an object.
    pub(crate) fn controller(part: Part) -> Self {
        Self::Update {
            manager: CONTROLLER.to_owned(),
            subresource: subresource(part),
        }
    }
}

/// The field manager of a request that names none: what stands before the version in its `User-Agent`.
pub(crate) fn manager_of_agent(user_agent: &str) -> String {
    let name = user_agent.split('/').next().unwrap_or_default();
    let mut manager = String::new();
    for c in name.chars().filter(|c| !c.is_control()) {
        if manager.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        manager.push(c);
    }
    manager
}

/// The subresource through which a part is written.
pub(crate) fn subresource(part: Part) -> &'static str {
    match part {
        Part::Main => "",
        Part::Status => "status",
        Part::Finalize => "finalize",
        Part::Approval => "approval",
        Part::Ephemeral => "ephemeralcontainers",
        Part::Resize => "resize",
        Part::Binding => "binding",
    }
}

/// The fields that a write of this part can own.
pub(crate) fn scope(resource: &Resource, part: Part) -> Scope {
    match part {
        Part::Main if resource.status => Scope::Without(FieldSet::of(&[&[Step::field("status")]])),
        Part::Main => Scope::all(),
        Part::Status => of_status(resource),
        Part::Approval => Scope::Only(Step::field("status")),
        Part::Finalize | Part::Ephemeral | Part::Resize => Scope::Only(Step::field("spec")),
        Part::Binding => Scope::all(),
    }
}

/// The fields that a write of the status can own.
fn of_status(resource: &Resource) -> Scope {
    let Some(keys) = resource.kept_with_status() else {
        return Scope::Only(Step::field("status"));
    };
    let keys: Vec<[Step; 2]> = keys
        .iter()
        .map(|key| [Step::field("metadata"), Step::field(key)])
        .collect();
    let spec = [Step::field("spec")];
    let paths: Vec<&[Step]> = keys.iter().map(|path| &path[..]).chain([&spec[..]]).collect();
    Scope::Without(FieldSet::of(&paths))
}

/// The entries of an object; none if they do not read.
pub(crate) fn entries_of(value: &Value) -> Vec<Entry> {
    let managed = object::at(value, &["metadata", "managedFields"]).unwrap_or(&Value::Null);
    read_entries(managed).unwrap_or_default()
}

/// Takes the managed fields that a client sent from its object; null if there are none.
pub(crate) fn take(value: &mut Value) -> Value {
    object::meta_mut(value)
        .and_then(|meta| meta.remove("managedFields"))
        .unwrap_or_default()
}

/// A write that is about to be stored.
pub(crate) struct Recorded<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) part: Part,
    pub(crate) writer: &'a Writer,
    /// The managed fields the client sent along; null if none.
    pub(crate) sent: Value,
    /// RFC 3339.
    pub(crate) now: &'a str,
    /// What the server added of its own accord, which is nobody's.
    pub(crate) allocated: FieldSet,
}

impl Recorded<'_> {
    /// Sets `metadata.managedFields` of `new`. `old` is `None` for an object that is being created. A write that
    /// changes nothing else than the time of an entry leaves the managed fields as they were.
    pub(crate) fn record(self, old: Option<&Value>, new: &mut Value) {
        let kept = old.and_then(|old| object::at(old, &["metadata", "managedFields"]));
        set_meta(new, "managedFields", kept.cloned());
        let same = old.is_some_and(|old| same_but_version(old, new));
        let sends = !self.sent.is_null() && Some(&self.sent) != kept && self.part == Part::Main;
        if same && !sends && matches!(self.writer, Writer::Update { .. }) {
            return;
        }
        let after = match self.writer {
            Writer::Applied(entries) => entries.clone(),
            Writer::Update { manager, subresource } => {
                let write = Write {
                    manager,
                    api_version: &self.resource.api_version(),
                    subresource,
                    now: self.now,
                };
                let scope = match scope(self.resource, self.part) {
                    Scope::Without(set) => Scope::Without(set.union(self.allocated.clone())),
                    only @ Scope::Only(_) => only,
                };
                let change = Change::between(old, new, topology(self.resource), &scope);
                let stored = object::meta_mut(new).and_then(|meta| meta.get_mut("managedFields"));
                if !sends && stored.is_some_and(|stored| change.renews(stored, &write)) {
                    return;
                }
                let before = old.map(entries_of).unwrap_or_default();
                let base = if sends { self.base(before) } else { before };
                change.record(old.is_none(), base, &write)
            }
        };
        if same && same_but_times(&old.map(entries_of).unwrap_or_default(), &after) {
            return;
        }
        set_meta(
            new,
            "managedFields",
            (!after.is_empty()).then(|| write_entries(after)),
        );
    }

    /// What the client sent, if it reads and says anything: clients that know nothing of managed fields send none.
    fn base(&self, before: Vec<Entry>) -> Vec<Entry> {
        if is_reset(&self.sent) {
            return vec![];
        }
        match read_entries(&self.sent) {
            Ok(entries) if !entries.is_empty() => entries,
            _ => before,
        }
    }
}

fn same_but_times(a: &[Entry], b: &[Entry]) -> bool {
    let in_b = |entry: &Entry| {
        b.iter().any(|other| {
            other.same_manager(entry)
                && other.api_version == entry.api_version
                && other.fields == entry.fields
        })
    };
    a.len() == b.len() && a.iter().all(in_b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_of_a_user_agent() {
        let long = "x".repeat(200);
        let table = [
            ("kubectl/v1.32.4 (linux/amd64) kubernetes/abc", "kubectl"),
            ("Mozilla", "Mozilla"),
            ("", ""),
            ("a\u{7}b/1", "ab"),
            (&long, &long[..128]),
        ];
        for (agent, want) in table {
            assert_eq!(manager_of_agent(agent), want, "{agent}");
        }
    }
}
