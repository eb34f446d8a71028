//! P10: fields of others survive whatever an agent writes, unless its bundle renders them, and whatever the hub writes to what
//! people have made.

use super::{
    commit::Commit,
    fields::{annotation_of, differing, is_at_or_below, leaves, touches},
    model::{APPLICATIONS, CLUSTERS, Content, LEDGERS, Model, PLACEMENTS},
    promise::{Check, Found, Note, Promise},
    who::Who,
};
use crate::simulate::HUB;
use roundhouse_api::names::{annotation, cluster_namespace};
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

#[derive(Debug, Default)]
pub(super) struct Others {
    /// The fields that somebody else has set last, of objects of members.
    theirs: BTreeMap<(Arc<str>, Key), BTreeSet<String>>,
}

impl Check for Others {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        match (&*commit.server, &*commit.key.table) {
            (HUB, APPLICATIONS | CLUSTERS | PLACEMENTS) => return by_hub(commit, found),
            (HUB, _) | (_, LEDGERS) => return,
            _ => {}
        }
        let place = (commit.server.clone(), commit.key.clone());
        if !commit.is_change() {
            self.theirs.remove(&place);
        }
        if commit.by().and_then(|who| who.agent()).is_some() {
            self.by_agent(&place, commit, model, found);
            return;
        }
        let says_status = commit
            .asked
            .as_ref()
            .and_then(|asked| asked.target.as_ref())
            .is_some_and(|target| target.part == "status");
        // All of an object that somebody else has made.
        if !says_status && !commit.deletes() {
            let after = leaves(commit.after());
            let theirs = self.theirs.entry(place).or_default();
            for path in differing(commit.before(), commit.after()) {
                match after.contains_key(&path) {
                    true => theirs.insert(path),
                    false => theirs.remove(&path),
                };
            }
        }
    }

    fn noted(&mut self, note: &Note, _: &Model, _: &mut Found<'_>) {
        if let Note::Reopened { server, .. } | Note::Restored(server) = note {
            self.theirs.retain(|(of, _), _| of != server);
        }
    }
}

/// Of what people have made the hub writes its own finalizers and annotations, beside the status, and nothing that is theirs.
fn by_hub(commit: &Commit, found: &mut Found<'_>) {
    if !commit.by().is_some_and(Who::is_hub) || !commit.is_change() {
        return;
    }
    found.judges_part(Promise::P10, "what people have made");
    let mut theirs = differing(commit.before(), commit.after());
    theirs.retain(|path| path != FINALIZERS || foreign(commit.before()) != foreign(commit.after()));
    if let Some(path) = theirs.first() {
        let now = leaves(commit.after()).get(path).map(ToString::to_string);
        let now = now.unwrap_or_else(|| "it removed".to_owned());
        let expected = format!("{path}, which the hub has not set, to stay");
        found.broke(Promise::P10, commit.object(), expected, now);
    }
}

const FINALIZERS: &str = "/metadata/finalizers";

/// The finalizers of others.
fn foreign(object: &Value) -> Vec<&Value> {
    let all = object.pointer(FINALIZERS).and_then(Value::as_array);
    let is_own = |finalizer: &&Value| {
        finalizer
            .as_str()
            .is_some_and(|name| name.starts_with("roundhouse.dev/"))
    };
    all.into_iter()
        .flatten()
        .filter(|finalizer| !is_own(finalizer))
        .collect()
}

impl Others {
    fn by_agent(&mut self, place: &(Arc<str>, Key), commit: &Commit, model: &Model, found: &mut Found<'_>) {
        if !commit.is_change() || commit.deletes() {
            return;
        }
        let (before, after) = (commit.before().get("status"), commit.after().get("status"));
        let rendered = Rendered::of(commit, model);
        if before != after && before.is_some() && !rendered.has_status {
            let expected = "the status that controllers have written to stay";
            found.broke(Promise::P10, commit.object(), expected, format!("{after:?}"));
        }
        let Some(theirs) = self.theirs.get_mut(place) else {
            return;
        };
        found.judges_part(
            Promise::P10,
            match &*commit.key.table {
                "deployments.apps" => "what agents write in Deployments",
                "services" => "what agents write in Services",
                _ => "what agents write",
            },
        );
        for path in differing(commit.before(), commit.after()) {
            if theirs.remove(&path) && !rendered.may_change(&path) {
                let now = leaves(commit.after()).get(&path).map(ToString::to_string);
                let expected = format!("{path}, which somebody else has set, to stay");
                let now = now.unwrap_or_else(|| "it removed".to_owned());
                found.broke(Promise::P10, commit.object(), expected, now);
            }
        }
    }
}

/// The paths that a bundle renders of an object, and those that it has rendered since the object was as it is.
#[derive(Debug, Default)]
struct Rendered {
    now: BTreeSet<String>,
    before: BTreeSet<String>,
    has_status: bool,
}

impl Rendered {
    fn of<'m>(commit: &Commit, model: &'m Model) -> Rendered {
        let mut rendered = Rendered::default();
        let ledger = model.ledger_of(&commit.server, &commit.key);
        let Some((_, ledger)) = ledger else {
            return rendered;
        };
        let Some(held) = model.by_uid(&ledger.spec.bundle_uid) else {
            return rendered;
        };
        let key = &commit.key;
        // Another part of the application may have had it.
        let others = held.application().into_iter().flat_map(|of| model.bundles_of(of));
        let namespace = cluster_namespace(&commit.server);
        let parts = others
            .filter(|(_, name, _)| *name.0 == *namespace)
            .map(|(_, _, held)| held);
        let own = |content: &'m Content| content.manifest(&key.table, &key.namespace, &key.name);
        let present = held.contents_of(ledger.spec.epoch).get(&ledger.spec.generation);
        if let Some(manifest) = present.and_then(own) {
            rendered.has_status |= manifest.get("status").is_some();
            rendered.now.extend(leaves(manifest).into_keys());
        }
        // The generation of the application.
        let generation = |object| annotation_of(object, annotation::GENERATION);
        let carried = generation(commit.before());
        for held in parts.chain([held]) {
            let manifests: Vec<&Value> = held.all_contents().filter_map(own).collect();
            // What was rendered and released before the object was last written, others may have set since.
            let since = manifests
                .iter()
                .position(|manifest| generation(manifest) == carried);
            let since = &manifests[since.unwrap_or(0)..];
            rendered
                .before
                .extend(since.iter().flat_map(|manifest| leaves(manifest).into_keys()));
        }
        rendered
    }

    /// Whether the bundle renders the field, or did and goes; a map or list that it leaves out altogether goes whole, with what
    /// others have put into it (kubectl's algorithm, which the merge follows).
    fn may_change(&self, path: &str) -> bool {
        if touches(path, self.now.iter()) || self.before.contains(path) {
            return true;
        }
        let above = path
            .match_indices('/')
            .map(|(at, _)| &path[..at])
            .filter(|above| !above.is_empty());
        above.into_iter().any(|above| {
            let below = |path: &String| is_at_or_below(path, above);
            self.before.iter().any(below) && !self.now.iter().any(below)
        })
    }
}
