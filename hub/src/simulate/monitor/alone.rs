//! P9: a disconnected agent keeps the last good set and heals it. While it is cut off it deletes nothing that it had not been
//! told of before, and what others change of its fields it puts right.

use super::{
    commit::Commit,
    fields::{differing, leaves, touches},
    model::{LEDGERS, Model},
    promise::{Check, Found, Note, Promise},
    who::Asked,
};
use crate::simulate::{HUB, trace::Object};
use roundhouse_agent::client::READ_TIMES_OUT;
use roundhouse_api::bundle::{ApplyOnce, Drift};
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// A difference is put right within this time, in tokio's.
const HEALED: Duration = Duration::from_secs(60);
/// An agent whose watches of its member are dead in silence is told of nothing until it gives their connection up.
const DEAF: Duration = READ_TIMES_OUT;
/// So long after the end of a fault of the network a request is lost that it has befallen.
const LOST: Duration = Duration::from_secs(60);
/// Who changes the same object more often than this is fought, ever more rarely.
const FOUGHT: u32 = 3;

/// What of the promise is judged where others have changed something.
const HEALS: &str = "puts right what others change";

#[derive(Debug)]
struct Owed {
    since: Duration,
    /// What others have changed: path -> what it was; nothing where the whole object went.
    fields: BTreeMap<String, Value>,
    changes: u32,
}

#[derive(Debug, Default)]
pub(super) struct Alone {
    owed: BTreeMap<(Arc<str>, Key), Owed>,
    /// When the watches fell silent that the agents which run have on their members.
    silenced: BTreeMap<Arc<str>, Vec<Duration>>,
    /// From when until when requests of agents to their members failed now and then.
    hindered: BTreeMap<Arc<str>, Vec<(Duration, Duration)>>,
    /// What agents have removed as they were told. Where no ledger answers for it any more a repeated request has made it once more,
    /// and for how long that may be removed is P5's to say.
    removed: BTreeSet<(Arc<str>, Key)>,
    /// The tables of its member that an agent has asked for since it was started. Those of a simulation keep nothing on a disk
    /// of theirs: one that is cut off before it has seen its Bundles asks for none, and knows nothing to put right.
    looked: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// Members that were restored from a backup, with the ledgers that their agents have written since: the others are of before, and
    /// their agents may know of more.
    restored: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Check for Alone {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let by_its_agent = commit.by().and_then(|who| who.agent()).is_some();
        if &*commit.key.table == LEDGERS
            && by_its_agent
            && let Some(written) = self.restored.get_mut(&commit.server)
        {
            written.insert(commit.key.name.clone());
        }
        if &*commit.server == HUB || &*commit.key.table == LEDGERS {
            return;
        }
        let place = (commit.server.clone(), commit.key.clone());
        let Some(since) = model.cut.get(&commit.server) else {
            if by_its_agent && commit.deletes() {
                self.removed.insert(place);
            }
            return;
        };
        if by_its_agent {
            if commit.deletes() {
                found.judges_part(Promise::P9, "deletes what it was told");
                let told = self.told_before(commit, model, *since);
                if told == Some(false) || (told.is_none() && !self.removed.contains(&place)) {
                    let expected = "nothing to be deleted that was not told before the agent was cut off";
                    found.broke(Promise::P9, commit.object(), expected, "it was deleted");
                } else {
                    self.removed.insert(place.clone());
                    // What goes as it was told is not put right any more.
                    self.owed.remove(&place);
                }
            }
            let healed = |owed: &&Owed| is_healed(&owed.fields, commit, model);
            if let Some(owed) = self.owed.get(&place).filter(healed) {
                found.judges_part(Promise::P9, HEALS);
                self.judge(&place, owed, commit.at, found);
                self.owed.remove(&place);
            }
            return;
        }
        if model.stopped.contains(&commit.server) || !self.has_looked(commit) || !heals(commit, model) {
            return;
        }
        let fields = drifted(commit, model);
        if fields.is_empty() && commit.after.is_some() {
            return;
        }
        let owed = self.owed.entry(place).or_insert(Owed {
            since: commit.at,
            fields: BTreeMap::new(),
            changes: 0,
        });
        owed.since = commit.at;
        owed.changes += 1;
        for (path, was) in fields {
            owed.fields.entry(path).or_insert(was);
        }
    }

    fn asked(&mut self, asked: &Asked, _: &Model, _: &mut Found<'_>) {
        let by_its_agent = asked.who.agent() == Some(&*asked.server) && asked.overdue.is_none();
        if let Some(target) = asked.target.as_ref().filter(|_| by_its_agent) {
            let looked = self.looked.entry(asked.server.clone()).or_default();
            if !looked.contains(&target.table) {
                looked.insert(target.table.clone());
            }
        }
    }

    fn noted(&mut self, note: &Note, model: &Model, found: &mut Found<'_>) {
        if let Note::Restored(cluster) = note {
            self.restored.insert(cluster.clone(), BTreeSet::new());
        }
        match note {
            Note::Silenced(cluster) => {
                let at = found.at;
                self.silenced.entry(cluster.clone()).or_default().push(at);
            }
            Note::Hindered(cluster, lasts) => {
                let at = found.at;
                let until = lasts.map_or(Duration::MAX, |lasts| at + lasts);
                self.hindered
                    .entry(cluster.clone())
                    .or_default()
                    .push((at, until));
            }
            Note::Eased => {
                let all = self.hindered.values_mut().flatten();
                all.for_each(|(_, until)| *until = found.at.min(*until));
            }
            // It opens watches of its own.
            Note::Started(cluster) => {
                self.silenced.remove(cluster);
                self.looked.remove(cluster);
            }
            Note::Stopped(cluster) | Note::Reopened { server: cluster, .. } | Note::Restored(cluster) => {
                self.owed.retain(|(server, _), _| server != cluster);
            }
            Note::Cut(cluster) => {
                // Whatever its agent does from now on is looked at.
                let first = (cluster.clone(), "".into());
                let own = model.ledgers.range(first..).next();
                if own.is_some_and(|((server, _), _)| server == cluster) {
                    found.judges_part(Promise::P9, "keeps what it has");
                }
            }
            Note::Healed(cluster) => {
                let of_it = self.owed.iter().filter(|((server, _), _)| server == cluster);
                for (place, owed) in of_it {
                    self.judge(place, owed, found.at, found);
                }
                self.owed.retain(|(server, _), _| server != cluster);
            }
            _ => {}
        }
    }
}

impl Alone {
    /// Tells of a difference that was not put right in time, as of this moment.
    fn judge(&self, (server, key): &(Arc<str>, Key), owed: &Owed, at: Duration, found: &mut Found<'_>) {
        let due = self.due(server, owed.since);
        if due >= at || owed.changes > FOUGHT {
            return;
        }
        found.judges_part(Promise::P9, HEALS);
        let object = Object::new(server, &key.table, &key.namespace, &key.name);
        let paths: Vec<&String> = owed.fields.keys().collect();
        let within = due.saturating_sub(owed.since);
        let expected = format!("what others changed to be put right within {within:?}");
        let since = owed.since.as_secs_f64();
        found.broke(
            Promise::P9,
            object,
            expected,
            format!("{paths:?} as since {since:.3} s"),
        );
    }

    /// Whether what lets an object go was on the hub before its agent was cut off, if a ledger answers for it.
    fn told_before(&self, commit: &Commit, model: &Model, since: Duration) -> Option<bool> {
        let (name, ledger) = model.ledger_of(&commit.server, &commit.key)?;
        let Some(held) = model.by_uid(&ledger.spec.bundle_uid) else {
            return Some(false);
        };
        let key = &commit.key;
        let written = self.restored.get(&commit.server);
        let is_of_before = written.is_some_and(|written| !written.contains(name));
        let later = is_of_before.then_some(&held.contents).into_iter().flatten();
        let contents = held.contents_of(ledger.spec.epoch).iter().chain(later);
        let mut early = contents.filter(|(_, content)| content.at <= since);
        // A request that comes late goes by what its agent followed when it sent it.
        let overdue = commit.asked.as_ref().and_then(|asked| asked.overdue);
        let follows = overdue
            .and_then(|_| model.followed((&commit.server, name), &ledger.spec.bundle_uid, commit.sent()));
        let follows = follows.unwrap_or(ledger.spec.generation);
        Some(early.any(|(generation, content)| {
            let lacks = !content.carries(&key.table, &key.namespace, &key.name);
            let followed = *generation == follows || (is_of_before && *generation > ledger.spec.generation);
            content.spec.deletion.is_some() || (followed && lacks)
        }))
    }

    fn has_looked(&self, commit: &Commit) -> bool {
        let looked = self.looked.get(&commit.server);
        looked.is_some_and(|tables| tables.contains(&*commit.key.table))
    }

    /// Until when a difference is put right. Watches that fell silent before that, or before the difference came, do not show it;
    /// and what fails on the way is tried again.
    fn due(&self, server: &Arc<str>, since: Duration) -> Duration {
        let silenced = self.silenced.get(server).into_iter().flatten();
        let silenced = silenced.map(|at| (*at, *at + DEAF));
        let hindered = self.hindered.get(server).into_iter().flatten();
        let hindered = hindered.filter(|(_, until)| *until >= since);
        let hindered = hindered.map(|(at, until)| (*at, until.saturating_add(LOST)));
        let mut all: Vec<(Duration, Duration)> = silenced.chain(hindered).collect();
        all.sort_unstable();
        let later = |due: Duration, (at, until): (Duration, Duration)| match at <= due {
            true => due.max(until.saturating_add(HEALED)),
            false => due,
        };
        all.into_iter().fold(since + HEALED, later)
    }
}

/// Whether the agent puts right what others change of an object.
fn heals(commit: &Commit, model: &Model) -> bool {
    let content = model
        .ledger_of(&commit.server, &commit.key)
        .and_then(|(_, ledger)| {
            let held = model.by_uid(&ledger.spec.bundle_uid)?;
            held.contents_of(ledger.spec.epoch).get(&ledger.spec.generation)
        });
    content.is_some_and(|content| {
        let spec = &content.spec;
        matches!(spec.drift, None | Some(Drift::Correct))
            && matches!(spec.apply_once, None | Some(ApplyOnce::Never))
            && spec.apply_once_rules.is_empty()
            && spec.manifest_configs.is_empty()
            && content.carries(&commit.key.table, &commit.key.namespace, &commit.key.name)
    })
}

/// What somebody has changed of the fields that the bundle renders, with what they were.
fn drifted(commit: &Commit, model: &Model) -> BTreeMap<String, Value> {
    let Some(rendered) = rendered(commit, model).filter(|_| commit.is_change()) else {
        return BTreeMap::new();
    };
    let (rendered, before) = (leaves(rendered), leaves(commit.before()));
    let changed = differing(commit.before(), commit.after()).into_iter();
    let ours = changed.filter(|path| touches(path, rendered.keys()));
    let was = ours.filter_map(|path| Some((path.clone(), (*before.get(&path)?).clone())));
    was.collect()
}

/// What the content that the ledger follows says of an object.
fn rendered<'m>(commit: &Commit, model: &'m Model) -> Option<&'m Value> {
    let key = &commit.key;
    let (_, ledger) = model.ledger_of(&commit.server, key)?;
    let held = model.by_uid(&ledger.spec.bundle_uid)?;
    let contents = held.contents_of(ledger.spec.epoch);
    let content = contents.get(&ledger.spec.generation)?;
    content.manifest(&key.table, &key.namespace, &key.name)
}

/// Whether the fields are as they were, or as the bundle says now: what it says may be new, and what they were the doing of a
/// request that came late.
fn is_healed(fields: &BTreeMap<String, Value>, commit: &Commit, model: &Model) -> bool {
    let now = leaves(commit.after());
    let says = rendered(commit, model).map(leaves).unwrap_or_default();
    let is_right = |(path, was): (&String, &Value)| {
        let is = now.get(path);
        is.is_some_and(|is| *is == was || says.get(path) == Some(is))
    };
    commit.after.is_some() && fields.iter().all(is_right)
}
