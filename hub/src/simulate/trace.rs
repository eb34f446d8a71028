//! What happened in a run, per object: its writes in order, the decisions among them, and the faults around it.
//!
//! How tasks took turns is no part of it: the canonical form names no time and no revision of a server, only the how-manieth
//! version of its object a write replaced. So the same seed gives the same bytes.

use super::HUB;
use roundhouse_api::{
    hash,
    names::{cluster_namespace, cluster_of_namespace},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
    sync::Arc,
    time::Duration,
};

/// Table of Applications.
const APPLICATIONS: &str = "applications.core.oam.dev";

/// An object of one of the servers of a fleet, or one of its parties: then only `server` and `name` are set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Object {
    /// The server that has it: [`HUB`], or a member.
    pub server: Arc<str>,
    /// Table: `plural.group`; empty for a party.
    pub table: Arc<str>,
    /// Namespace; empty for what has none.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Object {
    /// An object of a server.
    pub fn new(server: &str, table: &str, namespace: &str, name: &str) -> Self {
        Object {
            server: server.into(),
            table: table.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// A hub, an agent, or a line between them.
    pub fn party(server: &str, name: &str) -> Self {
        Object::new(server, "", "", name)
    }

    /// The member that it is in, or that its namespace on the hub is about.
    fn member(&self) -> Option<&str> {
        match &*self.server {
            HUB => cluster_of_namespace(&self.namespace),
            member => Some(member),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Object {
            server,
            table,
            namespace,
            name,
        } = self;
        match (table.is_empty(), namespace.is_empty()) {
            (true, _) => write!(f, "{server}: {name}"),
            (false, true) => write!(f, "{server}: {table} {name}"),
            (false, false) => write!(f, "{server}: {table} {namespace}/{name}"),
        }
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// The object was written.
    Wrote {
        /// Who asked for it; absent for what a server did by itself.
        by: Option<String>,
        /// The revision that was replaced; absent where there was no object.
        from: Option<u64>,
        /// The revision of the write.
        to: u64,
        /// The object is gone.
        removed: bool,
        /// Of what was written, without its times: see [`digest`].
        digest: String,
        /// What it says, for people.
        says: String,
    },
    /// Something was done to it, or to the party, by the script.
    Fault(String),
}

#[derive(Debug, Clone)]
struct Entry {
    /// Place among all entries of the run.
    number: u64,
    at: Duration,
    what: Happened,
}

/// What happened in a run, per object.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    objects: BTreeMap<Object, Vec<Entry>>,
    count: u64,
}

impl Trace {
    /// Notes what happened to an object, `at` so long after the start. A write that changes nothing but times is left out.
    pub fn note(&mut self, object: &Object, at: Duration, what: Happened) {
        if !self.objects.contains_key(object) {
            self.objects.insert(object.clone(), Vec::new());
        }
        let Some(entries) = self.objects.get_mut(object) else {
            return;
        };
        let before = entries.iter().rev().find_map(|entry| match &entry.what {
            Happened::Wrote { digest, removed, .. } => Some((digest, *removed)),
            Happened::Fault(_) => None,
        });
        if let Happened::Wrote { digest, removed, .. } = &what
            && before == Some((digest, *removed))
        {
            return;
        }
        self.count += 1;
        entries.push(Entry {
            number: self.count,
            at,
            what,
        });
    }

    /// How many things happened.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many writes are noted.
    pub fn writes(&self) -> usize {
        let all = self.objects.values().flatten();
        all.filter(|entry| matches!(entry.what, Happened::Wrote { .. }))
            .count()
    }

    /// The canonical form: one line per entry, sorted by object, each object's entries in order.
    pub fn canonical(&self) -> Vec<u8> {
        let mut text = String::new();
        for (object, entries) in &self.objects {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{object}");
            for (version, entry) in entries.iter().enumerate() {
                let _ = match &entry.what {
                    Happened::Wrote {
                        by,
                        from,
                        removed,
                        digest,
                        ..
                    } => {
                        let by = by.as_deref().unwrap_or("-");
                        let verb = verb(from.is_some(), *removed);
                        writeln!(text, "  {version} {verb} {by} {digest}")
                    }
                    Happened::Fault(what) => writeln!(text, "  {version} fault {what}"),
                };
            }
        }
        text.into_bytes()
    }

    /// Lower-case hex sha256 of the canonical form.
    pub fn digest(&self) -> String {
        hash::sha256(&self.canonical())
    }

    /// The members, and the Applications, that a text names.
    pub fn named_in(&self, text: &str) -> Vec<Object> {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let words: BTreeSet<&str> = text.split(|c| !is_of_name(c)).collect();
        let has = |name: &str| words.contains(name) || words.contains(&*cluster_namespace(name));
        let members: BTreeSet<&str> = self.objects.keys().filter_map(Object::member).collect();
        let members = members.into_iter().filter(|member| has(member));
        let applications = self.objects.keys().filter(|object| {
            &*object.server == HUB && &*object.table == APPLICATIONS && words.contains(&*object.name)
        });
        let agents = members.map(|member| Object::party(member, "agent"));
        agents.chain(applications.cloned()).collect()
    }

    /// The last `most` entries up to a moment of these objects, and of everything in and about the members concerned: what
    /// a person reads first when one of them is not as promised.
    pub fn of(&self, objects: &[Object], until: Duration, most: usize) -> String {
        let members: BTreeSet<&str> = objects.iter().filter_map(Object::member).collect();
        let concerned = |object: &Object| {
            let of_hub = &*object.server == HUB && object.table.is_empty();
            of_hub
                || objects.contains(object)
                || object.member().is_some_and(|member| members.contains(member))
        };
        let chosen = self.objects.iter().filter(|(object, _)| concerned(object));
        let mut entries: Vec<(&Object, &Entry)> = chosen
            .flat_map(|(object, entries)| entries.iter().map(move |entry| (object, entry)))
            .filter(|(_, entry)| entry.at <= until)
            .collect();
        entries.sort_by_key(|(_, entry)| entry.number);
        let skipped = entries.len().saturating_sub(most);
        let mut text = String::new();
        if skipped > 0 {
            // As above.
            let _ = writeln!(text, "… {skipped} earlier entries");
        }
        for (object, entry) in &entries[skipped..] {
            let _ = writeln!(
                text,
                "{:10.3} s  {object}  {}",
                entry.at.as_secs_f64(),
                entry.what
            );
        }
        text
    }
}

fn verb(existed: bool, removed: bool) -> &'static str {
    match (existed, removed) {
        (_, true) => "removed",
        (true, false) => "changed",
        (false, false) => "created",
    }
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Happened::Wrote {
                by,
                from,
                to,
                removed,
                digest,
                says,
            } => {
                let by = by.as_deref().unwrap_or("the server");
                let verb = verb(from.is_some(), *removed);
                let from = from.map_or("-".to_owned(), |from| from.to_string());
                write!(f, "{verb} by {by}, {from} -> {to}, {digest}")?;
                match says.is_empty() {
                    true => Ok(()),
                    false => write!(f, ": {says}"),
                }
            }
            Happened::Fault(what) => write!(f, "FAULT {what}"),
        }
    }
}

/// The first 12 hex digits of the sha256 of an object without its times: texts that are a moment (RFC 3339), the version,
/// and who set which field when.
pub fn digest(value: &Value) -> String {
    let mut value = value.clone();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    without_times(&mut value);
    let mut digest = hash::of_value(&value);
    digest.truncate(12);
    digest
}

fn without_times(value: &mut Value) {
    match value {
        Value::String(text) if is_moment(text) => text.clear(),
        Value::Array(all) => all.iter_mut().for_each(without_times),
        Value::Object(all) => all.values_mut().for_each(without_times),
        _ => {}
    }
}

/// `2026-01-01T00:00:00` and what follows.
fn is_moment(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let head = text.as_bytes().get(..FORM.len());
    head.is_some_and(|head| {
        head.iter().zip(FORM).all(|(c, form)| match form {
            b'0' => c.is_ascii_digit(),
            form => c == form,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrote(from: Option<u64>, to: u64, digest: &str) -> Happened {
        Happened::Wrote {
            by: Some("hub".to_owned()),
            from,
            to,
            removed: false,
            digest: digest.to_owned(),
            says: String::new(),
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_text_names_members_and_applications() {
        let mut trace = Trace::default();
        for (server, table, namespace, name) in [
            (HUB, APPLICATIONS, "default", "web"),
            (HUB, APPLICATIONS, "default", "other"),
            (HUB, "bundles.roundhouse.dev", "cluster-east-1", "default.web"),
            ("east-10", "configmaps", "default", "a"),
            ("west-1", "configmaps", "default", "a"),
        ] {
            trace.note(
                &Object::new(server, table, namespace, name),
                at(1),
                wrote(None, 1, "x"),
            );
        }
        for (text, expected) in [
            (
                "not delivered: bundle cluster-east-1/default.web waits",
                &["east-1", "web"][..],
            ),
            (
                "east-10: \"web\" differs; west-1, too",
                &["east-10", "west-1", "web"],
            ),
            ("no hub leads", &[]),
        ] {
            let named = trace.named_in(text);
            let names: Vec<&str> = named
                .iter()
                .map(|object| match object.table.is_empty() {
                    true => &*object.server,
                    false => &*object.name,
                })
                .collect();
            assert_eq!(names, expected, "{text}");
        }
    }

    #[test]
    fn the_canonical_form_knows_no_interleaving_and_no_times() {
        let (a, b) = (Object::new("m", "t", "n", "a"), Object::new("m", "t", "n", "b"));
        let mut one = Trace::default();
        one.note(&a, at(1), wrote(None, 3, "x"));
        one.note(&b, at(1), wrote(None, 4, "y"));
        one.note(&a, at(2), wrote(Some(3), 5, "z"));
        let mut other = Trace::default();
        other.note(&b, at(7), wrote(None, 3, "y"));
        other.note(&a, at(8), wrote(None, 4, "x"));
        other.note(&a, at(9), wrote(Some(4), 9, "z"));
        assert_eq!(one.canonical(), other.canonical());
        assert_eq!(one.digest(), other.digest());
        other.note(&a, at(10), Happened::Fault("restarted".to_owned()));
        assert_ne!(one.digest(), other.digest());
        let mut swapped = Trace::default();
        swapped.note(&a, at(1), wrote(None, 3, "z"));
        swapped.note(&a, at(1), wrote(Some(3), 4, "x"));
        swapped.note(&b, at(1), wrote(None, 5, "y"));
        assert_ne!(one.digest(), swapped.digest(), "the order of one object counts");
    }

    #[test]
    fn what_differs_in_times_only_is_no_entry() {
        let lease = |time: &str, holder: &str, version: &str| {
            json!({"metadata": {"name": "l", "resourceVersion": version, "managedFields": [{"time": time}]},
                "spec": {"renewTime": time, "holderIdentity": holder}})
        };
        let first = digest(&lease("2026-01-01T00:00:00.000001Z", "a", "7"));
        assert_eq!(digest(&lease("2026-01-01T00:00:10Z", "a", "8")), first);
        assert_ne!(digest(&lease("2026-01-01T00:00:10Z", "b", "8")), first);
        assert_ne!(digest(&lease("soon", "a", "8")), first);
        let object = Object::new("m", "leases", "n", "l");
        let mut trace = Trace::default();
        trace.note(&object, at(1), wrote(None, 3, "x"));
        trace.note(&object, at(2), wrote(Some(3), 4, "x"));
        assert_eq!(trace.writes(), 1);
    }

    #[test]
    fn the_readable_form_has_the_last_entries_of_what_is_concerned() {
        let mut trace = Trace::default();
        let bundle = Object::new("(hub)", "bundles", "cluster-east", "web");
        trace.note(&bundle, at(1), wrote(None, 3, "x"));
        trace.note(
            &Object::party("east", "agent"),
            at(2),
            Happened::Fault("killed".into()),
        );
        trace.note(
            &Object::party("west", "agent"),
            at(2),
            Happened::Fault("killed".into()),
        );
        trace.note(&bundle, at(3), wrote(Some(3), 4, "y"));
        trace.note(&bundle, at(4), wrote(Some(4), 5, "z"));
        let text = trace.of(std::slice::from_ref(&bundle), at(3), 2);
        assert_eq!(
            text,
            "… 1 earlier entries\n     2.000 s  east: agent  FAULT killed\n     3.000 s  (hub): bundles cluster-east/web  \
             changed by hub, 3 -> 4, y\n"
        );
    }
}
