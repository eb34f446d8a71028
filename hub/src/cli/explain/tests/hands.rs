//! A person who takes the advice: types the commands that are printed, on the objects of a hub, and sees to what cannot
//! be typed. Nothing but the printed text is known here.

use super::{args, structured, verdicts};
use crate::{
    application::{Foreseen, Proposal, Snapshot, foresee},
    cli::{
        Cli, Failure, Verb,
        explain::{Subject, read},
        format::Format,
        label,
        reshape::grammar,
        taint,
    },
    dispatch::Target,
};
use clap::Parser;
use jiff::Timestamp;
use roundhouse_api::{
    bundle::Bundle,
    cluster::{Cluster, TAINT_UNAVAILABLE, TAINT_UNREACHABLE},
    decision::Decision,
    names::decision_name,
};
use roundhouse_patch::{json_merge, json_patch};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of the application.
const UID: &str = "u1";

/// The objects of a hub, with the application `default/checkout`.
#[derive(Debug, Clone, Default)]
pub(super) struct Hub {
    /// Of the Application.
    pub(super) spec: Value,
    /// Placements, by name.
    pub(super) placements: BTreeMap<String, Value>,
    pub(super) clusters: BTreeMap<String, Cluster>,
    pub(super) decisions: Vec<Decision>,
    pub(super) bundles: Vec<Bundle>,
    /// `status.workflow` of the Application, if a run is under way.
    pub(super) workflow: Option<Value>,
    pub(super) now: Timestamp,
    /// Whether the Application is another than the one that was decided for.
    revised: bool,
}

impl Hub {
    pub(super) fn new(spec: Value, fleet: impl IntoIterator<Item = Cluster>) -> Hub {
        let named = |cluster: Cluster| (cluster.metadata.name.clone().unwrap(), cluster);
        Hub {
            spec,
            clusters: fleet.into_iter().map(named).collect(),
            ..Hub::default()
        }
    }

    /// The same with a Placement.
    pub(super) fn with(mut self, name: &str, spec: &Value) -> Hub {
        let object = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Placement",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec});
        self.placements.insert(name.to_owned(), object);
        self
    }

    /// Changes a cluster by hand.
    pub(super) fn facing(mut self, cluster: &str, change: impl FnOnce(&mut Cluster)) -> Hub {
        change(self.clusters.get_mut(cluster).unwrap());
        self
    }

    fn application(&self) -> Value {
        let revision = json!({"name": "checkout-v1", "revision": 1, "revisionHash": ""});
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "checkout", "namespace": "default", "uid": UID, "resourceVersion": "1", "generation": 1},
            "spec": self.spec, "status": {"latestRevision": revision, "workflow": self.workflow}})
    }

    fn snapshot(&self) -> Snapshot {
        let read = |value: &Value| serde_json::from_value(value.clone()).unwrap();
        let snapshot = Snapshot::default();
        for cluster in self.clusters.values() {
            snapshot.put_cluster(cluster);
        }
        for placement in self.placements.values() {
            snapshot.put_placement(read(placement));
        }
        for decision in &self.decisions {
            // It was made before the application had one.
            let mut decision = decision.clone();
            decision.spec.application_ref.uid = UID.to_owned();
            snapshot.put_decision(decision);
        }
        for bundle in &self.bundles {
            snapshot.put_bundle(bundle.clone());
        }
        // There is no ApplicationRevision: a spec of an Application that is stored is a new one.
        if self.revised || !self.bundles.is_empty() {
            snapshot.put_application(read(&self.application()));
        }
        snapshot
    }

    /// What the controller would come to.
    pub(super) fn foreseen(&self) -> Option<Foreseen> {
        let proposal = Proposal {
            namespace: "default",
            name: "checkout",
            spec: &self.spec,
        };
        foresee(&self.snapshot(), &proposal, self.now).ok()
    }

    /// Carries out what is decided now.
    pub(super) fn deliver(mut self) -> Hub {
        let foreseen = self.foreseen().expect("it can be placed");
        let stored = foreseen.decisions.into_iter().map(|decision| {
            let name = decision_name("checkout", &decision.spec.step);
            let mut stored = Decision::new(&name, decision.spec);
            stored.metadata.namespace = Some("default".to_owned());
            stored
        });
        self.decisions = stored.collect();
        let wanted = foreseen.plan.targets.values().filter_map(|target| match target {
            Target::Bundles(wanted) => Some(wanted),
            _ => None,
        });
        let bundles = wanted.flatten().map(|wanted| {
            let mut bundle = wanted.bundle(None);
            bundle.metadata.uid.clone_from(&bundle.metadata.namespace);
            bundle.metadata.generation = Some(1);
            bundle
        });
        self.bundles = bundles.collect();
        self
    }

    /// The same, as far as decisions are concerned.
    pub(super) fn decide(self) -> Hub {
        Hub {
            bundles: Vec::new(),
            ..self.deliver()
        }
    }

    pub(super) fn subject(&self) -> Result<Subject, Failure> {
        read::of(&args(Format::Json), &self.spec, &self.snapshot(), self.now)
    }

    /// What is printed of a cluster, step by step.
    pub(super) fn explained(&self, cluster: &str) -> Vec<Value> {
        let subject = self.subject().unwrap_or_else(|failure| panic!("{failure}"));
        let verdicts = verdicts(&subject, cluster).unwrap();
        let mut printed = structured::cluster(&subject, cluster, &verdicts);
        match printed["steps"].take() {
            Value::Array(steps) => steps,
            other => panic!("{other}"),
        }
    }

    /// Whether the controller would place the cluster by the step of that place: with replicas, or as a member where
    /// nothing is divided.
    pub(super) fn places(&self, cluster: &str, step: usize) -> bool {
        let foreseen = self.foreseen().expect("what is advised is accepted");
        let spec = &foreseen.decisions[step].spec;
        let mut rows = spec.workloads.iter().flat_map(|workload| &workload.clusters);
        match spec.workloads.is_empty() {
            true => spec.clusters.iter().any(|name| name == cluster),
            false => rows.any(|row| row.name == cluster && row.replicas > 0),
        }
    }

    /// Does all that one of the `ways` says.
    pub(super) fn take(mut self, cluster: &str, way: &Value) -> Hub {
        for change in way["changes"].as_array().unwrap() {
            match change["command"].as_str() {
                Some(line) => shell(line).iter().for_each(|words| self.type_in(words)),
                None => self.see_to(cluster, change["what"].as_str().unwrap()),
            }
        }
        self
    }

    fn type_in(&mut self, words: &[String]) {
        let text: Vec<&str> = words.iter().map(String::as_str).collect();
        match text[..] {
            ["roundhouse", ..] => self.roundhouse(words),
            [
                "roundhouse-agent",
                "--cluster",
                cluster,
                "--hub-kubeconfig",
                _,
                "--member-kubeconfig",
                _,
            ] => self.report(cluster),
            [
                "kubectl",
                "patch",
                "cluster",
                name,
                "--type",
                "merge",
                "-p",
                patch,
            ] => {
                let cluster = self.clusters.get_mut(name).expect("the cluster is there");
                let mut object = serde_json::to_value(&cluster).unwrap();
                json_merge(&mut object, &serde_json::from_str(patch).unwrap());
                *cluster = serde_json::from_value(object).unwrap();
            }
            [
                "kubectl",
                "-n",
                "default",
                "patch",
                kind,
                name,
                "--type",
                "json",
                "-p",
                patch,
            ] => {
                self.patch(kind, name, &serde_json::from_str(patch).unwrap());
            }
            _ => panic!("nobody can type {words:?}"),
        }
    }

    fn patch(&mut self, kind: &str, name: &str, patch: &Value) {
        let mut object = match kind {
            "application" => self.application(),
            "placement" => self.placements[name].clone(),
            other => panic!("a patch of {other}"),
        };
        json_patch(&mut object, patch).unwrap_or_else(|error| panic!("{patch}: {error}"));
        match kind {
            "application" => {
                assert_eq!(name, "checkout");
                self.spec = object["spec"].take();
                self.revised = true;
            }
            _ => drop(self.placements.insert(name.to_owned(), object)),
        }
    }

    /// The verbs' own grammar, and what they do to a cluster.
    fn roundhouse(&mut self, words: &[String]) {
        let cli = Cli::try_parse_from(words).unwrap_or_else(|usage| panic!("{usage}"));
        let now = self.now;
        let mut at = |name: &str, edit: &mut dyn FnMut(&mut Cluster)| {
            edit(self.clusters.get_mut(name).expect("the cluster is there"));
        };
        match cli.verb {
            Verb::Label(args) => at(args.options.cluster.as_str(), &mut |cluster| {
                let done = label::edit(&args).and_then(|edit| edit(cluster, now));
                done.map(drop).unwrap_or_else(|failure| panic!("{failure}"));
            }),
            Verb::Taint(args) => at(args.options.cluster.as_str(), &mut |cluster| {
                let done = taint::edit(&args).and_then(|edit| edit(cluster, now));
                done.map(drop).unwrap_or_else(|failure| panic!("{failure}"));
            }),
            Verb::Uncordon(args) => at(args.options.cluster.as_str(), &mut |cluster| {
                grammar::cordon(cluster, false, now);
            }),
            other => panic!("{other:?} changes no cluster"),
        }
    }

    /// The agent reports, as the hub then writes it down.
    fn report(&mut self, cluster: &str) {
        let cluster = self.clusters.get_mut(cluster).unwrap();
        let status = cluster.status.get_or_insert_default();
        for condition in &mut status.conditions {
            condition.status = "True".to_owned();
        }
        status
            .taints
            .retain(|taint| ![TAINT_UNAVAILABLE, TAINT_UNREACHABLE].contains(&taint.key.as_str()));
    }

    /// What cannot be typed on a hub.
    fn see_to(&mut self, cluster: &str, what: &str) {
        let what = what.split(" (now ").next().unwrap();
        if what == "let its agent reach the hub again" {
            return self.report(cluster);
        }
        let cluster = self.clusters.get_mut(cluster).unwrap();
        let status = cluster.status.get_or_insert_default();
        let words: Vec<&str> = what.split(' ').collect();
        match words[..] {
            ["capacity", "for", number, "replica" | "replicas"] => {
                let number = number.replace(',', "");
                status.capacity.insert("replicas".to_owned(), number);
            }
            ["allocatable", resource, "of", quantity] => {
                status
                    .allocatable
                    .insert(resource.to_owned(), quantity.to_owned());
            }
            _ => panic!("nobody can see to {what:?}"),
        }
    }
}

/// Commands joined by `&&`, in words as a shell reads them.
fn shell(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut started, mut quoted) = (String::new(), false, false);
    let mut rest = line.chars();
    loop {
        let next = rest.next();
        match next {
            Some('\'') => (quoted, started) = (!quoted, true),
            Some(' ') | None if !quoted => {
                if started {
                    let word = std::mem::take(&mut word);
                    match word == "&&" {
                        true => commands.push(Vec::new()),
                        false => commands.last_mut().unwrap().push(word),
                    }
                }
                started = false;
                if next.is_none() {
                    return commands;
                }
            }
            Some('\\') if !quoted => word.extend(rest.next()),
            Some(other) => {
                word.push(other);
                started = true;
            }
            None => panic!("a quote is open in {line}"),
        }
    }
}

#[test]
fn a_shell_reads_what_is_quoted() {
    assert_eq!(
        shell(r#"a 'b c' && d 'e'\''f' -p '{"x": 1}'"#),
        [vec!["a", "b c"], vec!["d", "e'f", "-p", r#"{"x": 1}"#]]
    );
}
