//! P1: no acknowledged write is lost, nor one that an agent was shown. P2: a write replaces the version that it names, and no other.

use super::{
    answer::Named,
    commit::Commit,
    model::{LEASES, Model},
    promise::{Check, Found, Note, Promise},
    who::Asked,
};
use crate::simulate::trace::Object;
use bytes::Bytes;
use http::StatusCode;
use roundhouse_api::names::annotation::EPOCH;
use roundhouse_apiserver::{Expect, Key, Store};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

type Place = (Arc<str>, Key);

/// What is known of one object.
#[derive(Debug, Default)]
struct Known {
    /// Revision of the last write.
    last: u64,
    /// Revision of the last write that was acknowledged, or shown to an agent; 0 if none was.
    acknowledged: u64,
    /// That write and those after it; absent bytes are a removal.
    writes: Vec<(u64, Option<Bytes>)>,
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    objects: BTreeMap<Place, Known>,
    /// Revision of the last write of each server.
    servers: BTreeMap<Arc<str>, u64>,
    /// Servers whose disks have no room, or have had none since they wrote last: whether they have room again.
    full: BTreeMap<Arc<str>, bool>,
}

/// Whether a write of a Lease leaves it to whom it was, in the same term: on a full disk that goes without the disk, as documented.
fn renews(known: &Known, revision: u64) -> bool {
    let at = known.writes.iter().position(|(at, _)| *at == revision);
    let holder = |at: usize| {
        let lease: Value = serde_json::from_slice(known.writes.get(at)?.1.as_ref()?).ok()?;
        let parts = [
            &["spec", "holderIdentity"][..],
            &["spec", "leaseTransitions"],
            &["metadata", "annotations", EPOCH],
        ];
        Some(parts.map(|part| part.iter().fold(&lease, |at, name| &at[*name]).clone()))
    };
    let pair = at.and_then(|at| Some((holder(at.checked_sub(1)?)?, holder(at)?)));
    pair.is_some_and(|(before, now)| before == now)
}

/// A hub writes over what it may not have seen: what it decides is of what it has read.
fn blind(commit: &Commit, found: &mut Found<'_>) {
    let Some(asked) = commit.asked.as_ref().filter(|asked| asked.who.is_hub()) else {
        return;
    };
    let own = asked.target.as_ref().is_some_and(|target| target.is(&commit.key));
    if own && commit.before.is_some() && asked.names_version().is_none() {
        let expected = "a request that names the version that it replaces";
        found.broke(Promise::P2, commit.object(), expected, "it names none");
    }
}

impl Check for Kept {
    fn expected(&mut self, commit: &Commit, expect: Expect, found: &mut Found<'_>) {
        found.judges(Promise::P2);
        let before = commit.before.as_ref().map(|record| record.revision);
        let wanted = match expect {
            Expect::Absent => None,
            Expect::Revision(revision) => Some(revision),
        };
        if wanted != before {
            let expected = format!("a write over {}", version(wanted));
            let was = format!("it replaced {}", version(before));
            found.broke(Promise::P2, commit.object(), expected, was);
        }
    }

    fn committed(&mut self, commit: &Commit, _: &Model, found: &mut Found<'_>) {
        blind(commit, found);
        let before = commit.before.as_ref().map(|record| record.revision);
        let place = (commit.server.clone(), commit.key.clone());
        let known = self.objects.entry(place).or_default();
        // A removal has a revision too, and leaves nothing to replace.
        let last = known.writes.last().filter(|(_, bytes)| bytes.is_some());
        let last = last.map(|(revision, _)| *revision);
        if known.last != 0 && last != before {
            let expected = format!("{}, the last write, to be replaced", version(last));
            let was = format!("{} was", version(before));
            found.broke(Promise::P2, commit.object(), expected, was);
        }
        let server = self.servers.entry(commit.server.clone()).or_default();
        if commit.revision <= *server {
            let expected = format!("a revision above {server}");
            found.broke(
                Promise::P2,
                commit.object(),
                expected,
                commit.revision.to_string(),
            );
        }
        *server = commit.revision;
        known.last = commit.revision;
        known.writes.push((commit.revision, commit.after.clone()));
        if known.acknowledged == 0 && known.writes.len() > MANY {
            // Nobody was told of any: the server's own.
            known.writes.remove(0);
        }
        let named = commit.asked.as_ref().filter(|asked| {
            commit.first && asked.target.as_ref().is_some_and(|target| target.is(&commit.key))
        });
        if let Some(asked) = named
            && let Some(wanted) = asked.names_version()
            && before != Some(wanted)
        {
            let expected = format!("{} by {} over version {wanted}", asked.method, asked.who);
            let was = format!("it replaced {}", version(before));
            found.broke(Promise::P2, commit.object(), expected, was);
        }
    }

    fn answered(&mut self, asked: &Asked, code: StatusCode, _: &mut Found<'_>) {
        if !code.is_success() {
            return;
        }
        for (key, revision) in asked.written() {
            if *key.table != *LEASES && self.full.get(&asked.server) == Some(&true) {
                self.full.remove(&asked.server);
            }
            self.acknowledged(&(asked.server.clone(), key), revision);
        }
    }

    fn heard(&mut self, asked: &Asked, named: &[Named], found: &mut Found<'_>) {
        let Some(target) = &asked.target else { return };
        for Named {
            namespace,
            name,
            version,
        } in named
        {
            let key = Key::new(&target.table.as_str().into(), namespace, name);
            let version = version.unwrap_or_default();
            if self.acknowledged(&(asked.server.clone(), key), version) {
                found.judges_part(Promise::P1, "what agents read");
            }
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, found: &mut Found<'_>) {
        match note {
            Note::Reopened { server, store } => self.reopened(server, &**store, found),
            Note::Restored(server) => self.objects.retain(|(of, _), _| of != server),
            Note::NoRoom(server) => drop(self.full.insert(server.clone(), false)),
            Note::Room(server) => {
                if let Some(room) = self.full.get_mut(server) {
                    *room = true;
                }
            }
            _ => {}
        }
    }
}

/// So many writes that nobody was told of are remembered.
const MANY: usize = 16;

impl Kept {
    /// Somebody knows of this write: whether that is new, and it may not be lost from now on.
    fn acknowledged(&mut self, place: &Place, revision: u64) -> bool {
        let may_be_unwritten = *place.1.table == *LEASES && self.full.contains_key(&place.0);
        let Some(known) = self.objects.get_mut(place) else {
            return false;
        };
        let is_new = known.acknowledged < revision && known.writes.iter().any(|(at, _)| *at == revision);
        if !is_new || (may_be_unwritten && renews(known, revision)) {
            return false;
        }
        known.acknowledged = revision;
        known.writes.retain(|(at, _)| *at >= revision);
        true
    }

    fn reopened(&mut self, server: &Arc<str>, store: &dyn Store, found: &mut Found<'_>) {
        for ((_, key), known) in self.objects.iter_mut().filter(|((of, _), _)| of == server) {
            let now = store.get(key);
            let (revision, bytes) = (
                now.as_ref().map(|record| record.revision),
                now.as_ref().map(|record| &record.bytes),
            );
            let object = Object {
                server: server.clone(),
                table: key.table.clone(),
                namespace: key.namespace.clone(),
                name: key.name.clone(),
            };
            let written = known.writes.iter().any(|(at, wrote)| match wrote {
                Some(wrote) => revision == Some(*at) && bytes == Some(wrote),
                None => revision.is_none(),
            });
            // What was never acknowledged may be there or not, as it was before or after.
            if known.acknowledged > 0 {
                found.judges(Promise::P1);
            }
            if known.acknowledged > 0 && !written {
                let expected = format!(
                    "what was acknowledged at revision {}, or a later write",
                    known.acknowledged
                );
                found.broke(Promise::P1, object, expected, version(revision));
            }
            let kept = revision.unwrap_or(0);
            known
                .writes
                .retain(|(at, wrote)| *at <= kept || (revision.is_none() && wrote.is_none()));
            known.last = match (revision, known.writes.last()) {
                (Some(revision), _) => revision,
                (None, Some((at, _))) => *at,
                (None, None) => 0,
            };
        }
        self.servers.insert(server.clone(), store.revision());
    }
}

fn version(revision: Option<u64>) -> String {
    revision.map_or("nothing".to_owned(), |revision| format!("version {revision}"))
}
