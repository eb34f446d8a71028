//! P14: decisions are deterministic: the same inputs give the same bytes. That a whole run replays from its seed is for whoever
//! runs it twice to see.

use super::{
    commit::Commit,
    model::{CLUSTERS, DECISIONS, Model},
    promise::{Check, Found, Promise},
};
use crate::simulate::HUB;
use roundhouse_api::{
    decision::{Decision, DecisionSpec},
    hash,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Default)]
pub(super) struct Same {
    /// Hash of the inputs -> hash of the decision.
    decided: BTreeMap<String, String>,
    /// What placement reads of each cluster.
    clusters: BTreeMap<String, Value>,
}

impl Check for Same {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        match (&*commit.server, &*commit.key.table) {
            (HUB, CLUSTERS) => self.cluster(commit),
            (HUB, DECISIONS) if commit.by().is_some_and(|who| who.is_hub()) => {
                let Some(decision) = commit.read::<Decision>() else {
                    return;
                };
                let inputs = self.inputs(commit, &decision.spec, model);
                let decided = hash::of_value(&answer(&decision.spec));
                if self.decided.contains_key(&inputs) {
                    found.judges(Promise::P14);
                }
                let before = self.decided.entry(inputs).or_insert_with(|| decided.clone());
                if *before != decided {
                    let expected = format!("the decision {before} that the same inputs gave before");
                    found.broke(Promise::P14, commit.object(), expected, decided);
                }
            }
            _ => {}
        }
    }
}

/// What placement decided, without who wrote it and who waits for a turn with it.
fn answer(decision: &DecisionSpec) -> Value {
    let decision = DecisionSpec {
        epoch: 0,
        waiting: Vec::new(),
        ..decision.clone()
    };
    json!(decision)
}

impl Same {
    fn cluster(&mut self, commit: &Commit) {
        let after = commit.after();
        let name = commit.key.name.to_string();
        if after.is_null() {
            self.clusters.remove(&name);
            return;
        }
        let conditions = after.pointer("/status/conditions").and_then(Value::as_array);
        let conditions = conditions.into_iter().flatten();
        let conditions: Vec<_> = conditions.map(|c| (&c["type"], &c["status"])).collect();
        let read = json!([
            after.pointer("/metadata/labels"),
            after.pointer("/metadata/deletionTimestamp"),
            after.get("spec"),
            conditions,
            after.pointer("/status/taints"),
            after.pointer("/status/taintsSeen"),
            after.pointer("/status/capacity"),
            after.pointer("/status/allocatable"),
        ]);
        self.clusters.insert(name, read);
    }

    /// All that a decision follows from: the application's revision, Placements, clusters, and what was decided before for it.
    fn inputs(&self, commit: &Commit, decision: &DecisionSpec, model: &Model) -> String {
        let namespace = &commit.key.namespace;
        let revision = (namespace.clone(), Arc::from(decision.revision.as_str()));
        let application = &decision.application_ref;
        let of = |((other, _), before): &(&(Arc<str>, Arc<str>), &DecisionSpec)| {
            other == namespace && before.application_ref == *application
        };
        let before: Vec<_> = model
            .decisions
            .iter()
            .filter(of)
            .map(|(_, d)| answer(d))
            .collect();
        let inputs = json!([
            application,
            decision.step,
            decision.revision,
            model.revisions.get(&revision).map(|revision| &revision.text),
            model.placements.values().collect::<Vec<_>>(),
            self.clusters,
            before,
        ]);
        hash::of_value(&inputs)
    }
}
