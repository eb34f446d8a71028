//! The plan and the evidence rule against a model of one cluster's agent.

use super::{content::Divider, plan::Todo, *};
use crate::{
    render::{JobShare, Rendered, RenderedComponent},
    workflow::ClusterState,
};
use roundhouse_api::{
    application::{MAX_REGIONS, OTHER_REGIONS},
    bundle::{
        ApplicationRef, ApplyOnce, ApplyOnceRule, ApplyOnceStrategy, Bundle, BundlePhase, BundleStatus,
        Counts, Deletion, WorkloadStatus,
    },
    decision::WorkloadRef,
    names::{BUNDLE_FINALIZER, annotation, label},
};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

fn application() -> ApplicationRef {
    ApplicationRef {
        namespace: "default".to_owned(),
        name: "app".to_owned(),
        uid: "u-app".to_owned(),
    }
}

fn web() -> WorkloadRef {
    WorkloadRef {
        kind: "Deployment".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    }
}

fn content(revision: u64, image: &str) -> Content {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 10, "template": {"spec": {"containers": [{"name": "web", "image": image}]}}}});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": "default"}, "data": {"a": "b"}});
    Content {
        namespace: "default".to_owned(),
        application: "app".to_owned(),
        revision: format!("app-v{revision}"),
        generation: i64::try_from(revision).unwrap(),
        components: BTreeMap::from([("web".to_owned(), format!("web-v{revision}"))]),
        variants: BTreeMap::new(),
        rendered: Rendered {
            components: vec![RenderedComponent {
                name: "web".to_owned(),
                manifests: vec![deployment, config],
            }],
            ..Rendered::default()
        },
    }
}

fn share(replicas: u32, reached: bool) -> Share {
    Share {
        step: "east".to_owned(),
        reached,
        revision: "app-v1".to_owned(),
        replicas: BTreeMap::from([(
            web(),
            JobShare {
                before: 0,
                replicas,
                of_total: 10,
            },
        )]),
        divided: u64::from(replicas),
        empty: replicas == 0,
        ..Share::default()
    }
}

/// The hub's store: Bundles with the server's generation rules.
#[derive(Default)]
struct Store {
    bundles: BTreeMap<String, Bundle>,
    writes: u32,
    uids: u32,
}

impl Store {
    fn observed(&self) -> BTreeMap<String, Vec<Arc<Observed>>> {
        let mut all: BTreeMap<String, Vec<Arc<Observed>>> = BTreeMap::new();
        for bundle in self.bundles.values() {
            let observed = Observed::of(bundle.clone()).unwrap();
            all.entry(observed.cluster.clone())
                .or_default()
                .push(Arc::new(observed));
        }
        all
    }

    fn plan(&self, content: &Content, shares: &[(&str, Share)], epoch: i64) -> Plan {
        self.plan_beside(&BTreeMap::new(), content, shares, epoch)
    }

    /// The same where earlier revisions are loaded.
    fn plan_beside(
        &self,
        former: &BTreeMap<String, Content>,
        content: &Content,
        shares: &[(&str, Share)],
        epoch: i64,
    ) -> Plan {
        let shares = shares.iter().map(|(c, s)| ((*c).to_owned(), s.clone())).collect();
        plan(&Request {
            application: &application(),
            content,
            former,
            shares: &shares,
            observed: &self.observed(),
            apply_once: None,
            apply_once_rules: &[],
            executor: None,
            manifest_configs: &[],
            steps: &["east"],
            epoch,
        })
    }

    fn execute(&mut self, plan: &Plan) {
        let observed = self.observed();
        for (cluster, target) in &plan.targets {
            let Target::Bundles(wanted) = target else { continue };
            for wanted in wanted.iter().filter(|wanted| wanted.todo.is_write()) {
                let existing = observed
                    .get(cluster)
                    .and_then(|all| all.iter().find(|b| b.name == wanted.name));
                let mut bundle = wanted.bundle(existing.map(Arc::as_ref));
                let key = format!("{}/{}", wanted.namespace, wanted.name);
                match self.bundles.get(&key) {
                    Some(old) => {
                        bundle.status.clone_from(&old.status);
                        let changed = i64::from(old.spec != bundle.spec);
                        bundle.metadata.generation = old.metadata.generation.map(|g| g + changed);
                    }
                    None => {
                        self.uids += 1;
                        bundle.metadata.uid = Some(format!("u{}", self.uids));
                        bundle.metadata.generation = Some(1);
                    }
                }
                self.writes += 1;
                self.bundles.insert(key, bundle);
            }
        }
    }

    fn dispatch(&mut self, content: &Content, shares: &[(&str, Share)]) {
        let plan = self.plan(content, shares, 1);
        self.execute(&plan);
    }

    fn only(&mut self) -> &mut Bundle {
        self.bundles.values_mut().next().unwrap()
    }

    fn state(&self, content: &Content, cluster: &str, share: Share) -> ClusterState {
        let plan = self.plan(content, &[(cluster, share)], 1);
        let Target::Bundles(wanted) = &plan.targets[cluster] else {
            panic!("{plan:?}")
        };
        let observed = self.observed();
        let held = observed.get(cluster).map_or(&[][..], Vec::as_slice);
        cluster_evidence(cluster, wanted, held, None).state
    }
}

/// What an agent that read `bundle` reports.
fn report(bundle: &Bundle, phase: BundlePhase) -> BundleStatus {
    BundleStatus {
        hash: bundle.spec.hash.clone(),
        observed_generation: bundle.metadata.generation,
        phase: Some(phase),
        counts: Some(Counts {
            total: 2,
            applied: 2,
            ready: 2,
            failed: 0,
        }),
        workloads: vec![WorkloadStatus {
            desired: 3,
            updated: 3,
            ready: 3,
            ..WorkloadStatus::default()
        }],
        ..BundleStatus::default()
    }
}

#[test]
fn a_bundle_is_written_once_and_holds_what_the_cluster_gets() {
    let mut store = Store::default();
    for _ in 0..3 {
        store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    }
    assert_eq!(store.writes, 1);
    let bundle = store.only();
    assert_eq!(bundle.spec.workload.manifests[0]["spec"]["replicas"], 3);
    let hash = roundhouse_api::hash::of_manifests(&bundle.spec.workload.manifests);
    assert_eq!(bundle.spec.hash.as_deref(), Some(hash.as_str()));
    assert_eq!(bundle.spec.parts_hash, None, "it is the only one");
    let labels = bundle.metadata.labels.clone().unwrap();
    assert_eq!(labels[label::APP_NAME], "app");
    assert_eq!(labels[label::CLUSTER], "c1");
    assert_eq!(labels[label::STEP], "east");
    assert_eq!(
        bundle.metadata.finalizers.as_deref(),
        Some(&[BUNDLE_FINALIZER.to_owned()][..])
    );
}

#[test]
fn bookkeeping_alone_writes_nothing_and_content_does() {
    let mut store = Store::default();
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    // Another revision with the same manifests, another epoch, another step.
    let mut other = share(3, true);
    other.step = "renamed".to_owned();
    let plan = store.plan(&content(2, "a"), &[("c1", other)], 7);
    let Target::Bundles(wanted) = &plan.targets["c1"] else {
        panic!()
    };
    assert_eq!(wanted[0].todo, Todo::Nothing);
    // But a step that the spec has no longer is not named on: one of that name may come again.
    let label = |store: &mut Store, step: &str| {
        let labels = store.only().metadata.labels.as_mut().unwrap();
        labels.insert(label::STEP.to_owned(), step.to_owned())
    };
    label(&mut store, "gone");
    let before = store.writes;
    for _ in 0..2 {
        store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    }
    assert_eq!(store.writes, before + 1);
    assert_eq!(label(&mut store, "east").as_deref(), Some("east"));
    for (content, share) in [
        (content(2, "b"), share(3, true)),
        (content(2, "b"), share(4, true)),
    ] {
        let before = store.writes;
        store.dispatch(&content, &[("c1", share)]);
        assert_eq!(store.writes, before + 1);
    }
    // What others changed is repaired: a label, the finalizer, a field of the spec.
    let damages: [fn(&mut Bundle); 4] = [
        |b| b.metadata.labels = None,
        |b| b.metadata.finalizers = None,
        |b| b.spec.paused = Some(true),
        |b| b.spec.application_ref = None,
    ];
    for damage in damages {
        damage(store.only());
        let before = store.writes;
        store.dispatch(&content(2, "b"), &[("c1", share(4, true))]);
        store.dispatch(&content(2, "b"), &[("c1", share(4, true))]);
        assert_eq!(store.writes, before + 1);
    }
}

#[test]
fn a_hash_mismatch_is_rewritten() {
    let mut store = Store::default();
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    let bundle = store.only();
    // Edited by hand, with the hash left as it was.
    bundle.spec.workload.manifests[0]["spec"]["replicas"] = json!(9);
    bundle.metadata.generation = Some(2);
    let mut status = report(bundle, BundlePhase::Failed);
    roundhouse_api::condition::set(
        &mut status.conditions,
        roundhouse_api::condition::Verdict {
            type_: "Applied",
            status: roundhouse_api::condition::Status::False,
            reason: "HashMismatch",
            message: String::new(),
        },
        Some(2),
        jiff::Timestamp::UNIX_EPOCH,
    );
    bundle.status = Some(status);
    assert_eq!(
        store.state(&content(1, "a"), "c1", share(3, true)),
        ClusterState::Dispatching
    );
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    assert_eq!(store.only().spec.workload.manifests[0]["spec"]["replicas"], 3);
    assert_eq!(store.writes, 2);
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    assert_eq!(store.writes, 2);
}

/// A hub that does not lead any more has made it, and the request came late: its agent obeys a later term.
#[test]
fn what_came_late_from_an_earlier_term_is_written_anew() {
    let mut store = Store::default();
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    let bundle = store.only();
    for (reason, generation, obeyed, own, expected) in [
        ("OldEpoch", 1, 2, 2, Todo::Replace),
        ("OldEpoch", 1, 2, 3, Todo::Replace),
        // That was said of another generation, or this hub would not be obeyed, either.
        ("OldEpoch", 2, 2, 2, Todo::Nothing),
        ("OldEpoch", 1, 3, 2, Todo::Nothing),
        ("OldEpoch", 1, 1, 1, Todo::Nothing),
        // Nobody has said yet that the hub went back on purpose.
        ("OldGeneration", 1, 2, 2, Todo::Nothing),
    ] {
        let mut status = report(bundle, BundlePhase::Ready);
        status.epoch = Some(obeyed);
        roundhouse_api::condition::set(
            &mut status.conditions,
            roundhouse_api::condition::Verdict {
                type_: "Progressing",
                status: roundhouse_api::condition::Status::False,
                reason,
                message: String::new(),
            },
            Some(generation),
            jiff::Timestamp::UNIX_EPOCH,
        );
        bundle.status = Some(status);
        let observed = Observed::of(bundle.clone()).unwrap();
        let observed = BTreeMap::from([("c1".to_owned(), vec![Arc::new(observed)])]);
        let plan = super::plan(&Request {
            application: &application(),
            content: &content(1, "a"),
            former: &BTreeMap::new(),
            shares: &BTreeMap::from([("c1".to_owned(), share(3, true))]),
            observed: &observed,
            apply_once: None,
            apply_once_rules: &[],
            executor: None,
            manifest_configs: &[],
            steps: &[],
            epoch: own,
        });
        let Target::Bundles(wanted) = &plan.targets["c1"] else {
            panic!("{plan:?}")
        };
        assert_eq!(wanted[0].todo, expected, "{reason} {generation} {obeyed} {own}");
        assert_eq!(wanted[0].spec.epoch, Some(own));
    }
}

#[test]
fn clusters_without_a_share() {
    let mut store = Store::default();
    store.dispatch(&content(1, "a"), &[("c1", share(0, true))]);
    assert_eq!(store.writes, 0, "no new bundle");
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    store.dispatch(&content(1, "a"), &[("c1", share(0, true))]);
    assert_eq!(
        store.only().spec.workload.manifests[0]["spec"]["replicas"],
        0,
        "kept with replicas 0"
    );
    let plan = store.plan(&content(1, "a"), &[], 1);
    assert_eq!(
        plan.surplus,
        [("cluster-c1".to_owned(), "default.app".to_owned())]
    );
}

/// A Job without a share is left out, since it would never finish. What another group calls so is scaled to nothing.
#[test]
fn a_kind_named_job_of_another_group_is_no_job() {
    let object = |api_version: &str, field: &str| {
        let spec = json!({field: 4});
        json!({"apiVersion": api_version, "kind": "Job", "metadata": {"name": "sum", "namespace": "default"}, "spec": spec})
    };
    let definition = json!({"workload": {"definition": {"apiVersion": "example.org/v1", "kind": "Job"}}, "replicasPath": "spec.size"});
    let definition = serde_json::from_value(definition).unwrap();
    let name = ("default".to_owned(), "sum".to_owned());
    let given = |manifest: serde_json::Value, before: u32, replicas: u32| {
        let mut content = content(1, "a");
        content.rendered.replica_paths = crate::render::ReplicaPaths::of("default", [(&name, &definition)]);
        let key = crate::render::workload_ref(&manifest).unwrap();
        content.rendered.components[0].manifests = vec![manifest];
        let share = JobShare {
            before,
            replicas,
            of_total: 4,
        };
        let mut divider = Divider::new(&content);
        let divided = divider.divide("east", &BTreeMap::from([(key.clone(), share)]), &[]);
        let other = JobShare {
            before: before + 1,
            ..share
        };
        let other = divider.divide("east", &BTreeMap::from([(key, other)]), &[]);
        let (divided, other) = (divided.unwrap(), other.unwrap());
        let counts = divided.parts[0].manifests.iter();
        let counts: Vec<_> = counts
            .filter_map(|m| {
                m.pointer("/spec/size")
                    .or(m.pointer("/spec/parallelism"))?
                    .as_u64()
            })
            .collect();
        (counts, std::sync::Arc::ptr_eq(&divided, &other))
    };
    let job = || object("batch/v1", "parallelism");
    let other = || object("example.org/v1", "size");
    assert_eq!(given(job(), 0, 0).0, [0; 0]);
    assert_eq!(given(other(), 0, 0).0, [0]);
    // What comes before matters to a Job, whose completions are divided, and else nobody does the work twice.
    assert_eq!(given(job(), 1, 2), (vec![2], false));
    assert_eq!(given(other(), 1, 2), (vec![2], true));
}

#[test]
fn clusters_that_the_run_has_not_reached() {
    let mut store = Store::default();
    let plan = store.plan(&content(2, "b"), &[("c4", share(2, false))], 1);
    assert_eq!(
        plan.targets["c4"],
        Target::Vanished {
            revision: "app-v1".to_owned()
        }
    );
    store.dispatch(&content(1, "a"), &[("c4", share(2, true))]);
    let plan = store.plan(&content(2, "b"), &[("c4", share(2, false))], 1);
    assert_eq!(plan.targets["c4"], Target::Untouched);
    assert_eq!(plan.surplus, []);
    // Made again from the revision that was delivered, once that is loaded.
    let lost = Store::default();
    let former = BTreeMap::from([("app-v1".to_owned(), content(1, "a"))]);
    let plan = lost.plan_beside(&former, &content(2, "b"), &[("c4", share(2, false))], 1);
    let Target::Bundles(wanted) = &plan.targets["c4"] else {
        panic!("{plan:?}")
    };
    let container = "/spec/template/spec/containers/0/image";
    assert_eq!(
        wanted[0].bundle(None).spec.workload.manifests[0].pointer(container),
        Some(&json!("a"))
    );
}

/// Steps that bring everything: that the second one brings what the first one has brought already is noted all the same.
#[test]
fn a_bundle_under_two_steps_tells_the_revision_of_each() {
    let given = |first: &str, second: &str, reached: bool| Share {
        step: "all".to_owned(),
        revision: second.to_owned(),
        earlier: vec![("canary".to_owned(), first.to_owned())],
        ..share(2, reached)
    };
    let mut store = Store::default();
    let mut todo = |image: &str, revision: u64, share: Share| {
        let plan = store.plan(&content(revision, image), &[("c1", share)], 1);
        store.execute(&plan);
        let bundle = Observed::of(store.only().clone()).unwrap();
        let told = ["canary", "all"].map(|step| bundle.revision_by(step).unwrap_or_default());
        match &plan.targets["c1"] {
            Target::Bundles(wanted) => (wanted[0].todo, told.join(" ")),
            other => panic!("{other:?}"),
        }
    };
    let first = (Todo::Create, "app-v1 app-v1".to_owned());
    assert_eq!(todo("a", 1, given("app-v1", "app-v1", true)), first);
    let canary = (Todo::Replace, "app-v2 app-v1".to_owned());
    assert_eq!(todo("b", 2, given("app-v2", "app-v1", true)), canary);
    let both = "app-v2 app-v2".to_owned();
    assert_eq!(
        todo("b", 2, given("app-v2", "app-v2", true)),
        (Todo::Note, both.clone())
    );
    assert_eq!(
        todo("b", 2, given("app-v2", "app-v2", true)),
        (Todo::Nothing, both.clone())
    );
    // Nothing is written where nothing has come.
    assert_eq!(
        todo("b", 3, given("app-v3", "app-v2", true)),
        (Todo::Nothing, both)
    );
}

/// Where the Decision of a step is lost, Bundles tell what it has brought; what a step gave that nobody knows stays as it is.
#[test]
fn a_bundle_tells_which_steps_brought_it() {
    let source = |step: &str, revision: &str, reached: bool, component: &str| mixed::Source {
        step: step.to_owned(),
        revision: revision.to_owned(),
        reached,
        components: vec![component.to_owned()],
        overrides: Vec::new(),
    };
    let first = source("early", "app-v2", true, "web");
    let both = vec![first.clone(), source("late", "app-v1", false, "other")];
    let mixed = |sources: Vec<mixed::Source>| {
        let (last, earlier) = sources.split_last().unwrap();
        let given = |source: &mixed::Source| (source.step.clone(), source.revision.clone());
        Share {
            step: "late".to_owned(),
            revision: last.revision.clone(),
            earlier: earlier.iter().map(given).collect(),
            sources,
            ..share(2, true)
        }
    };
    let mut store = Store::default();
    let former = BTreeMap::from([("app-v1".to_owned(), content(1, "a"))]);
    let dispatch = |store: &mut Store, image: &str, share: Share| {
        let plan = store.plan_beside(&former, &content(2, image), &[("c1", share)], 1);
        store.execute(&plan);
        plan.targets["c1"].clone()
    };
    let told = |store: &mut Store| {
        let bundle = Observed::of(store.only().clone()).unwrap();
        ["early", "late", "later"].map(|step| bundle.revision_by(step))
    };
    let revisions = |of: [Option<&str>; 3]| of.map(|revision| revision.map(str::to_owned));
    dispatch(&mut store, "a", mixed(both.clone()));
    assert_eq!(
        told(&mut store),
        revisions([Some("app-v2"), Some("app-v1"), None])
    );
    // What somebody writes there in its place tells nothing; the label does, of the last step.
    let annotations = store.only().metadata.annotations.as_mut().unwrap();
    annotations.insert(annotation::STEPS.to_owned(), "[garbage".to_owned());
    annotations.insert("their".to_owned(), "own".to_owned());
    assert_eq!(told(&mut store), revisions([None, Some("app-v2"), None]));
    dispatch(&mut store, "b", mixed(both));
    assert_eq!(
        told(&mut store),
        revisions([Some("app-v2"), Some("app-v1"), None])
    );
    // One step alone needs no note, and what others wrote stays.
    dispatch(
        &mut store,
        "c",
        Share {
            step: "early".to_owned(),
            ..mixed(vec![first])
        },
    );
    assert_eq!(told(&mut store), revisions([Some("app-v2"), None, None]));
    let annotations = store.only().metadata.annotations.clone();
    assert_eq!(
        annotations,
        Some(BTreeMap::from([("their".to_owned(), "own".to_owned())]))
    );
    // Who has brought nothing is not named for ever, also where nothing else differs: it is told once.
    let of = |steps: &[&str], step: &str| Share {
        step: step.to_owned(),
        ..mixed(
            steps
                .iter()
                .map(|step| source(step, "app-v2", true, "web"))
                .collect(),
        )
    };
    let todo = |store: &mut Store, share: Share| match dispatch(store, "c", share) {
        Target::Bundles(wanted) => wanted[0].todo,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        todo(&mut store, of(&["renamed", "early"], "early")),
        Todo::Nothing
    );
    let annotations = store.only().metadata.annotations.as_mut().unwrap();
    annotations.insert(
        annotation::STEPS.to_owned(),
        json!({"early": "app-v2", "gone": "app-v1"}).to_string(),
    );
    for expected in [Todo::Note, Todo::Nothing] {
        assert_eq!(todo(&mut store, of(&["renamed", "early"], "early")), expected);
    }
    assert_eq!(
        ["gone", "renamed"].map(|step| Observed::of(store.only().clone()).unwrap().revision_by(step)),
        [None, Some("app-v2".to_owned())]
    );
    let writes = store.writes;
    let lost = |reached: bool| Share {
        lost: Some("late".to_owned()),
        ..share(5, reached)
    };
    let refusal = Refusal::Lost {
        application: "default/app".to_owned(),
        step: "late".to_owned(),
    };
    assert_eq!(dispatch(&mut store, "d", lost(true)), Target::Refused(refusal));
    assert_eq!(dispatch(&mut store, "d", lost(false)), Target::Untouched);
    assert_eq!(store.writes, writes);
}

#[test]
fn large_applications_are_split_and_too_large_manifests_refused_by_name() {
    let mut big = content(1, "a");
    big.rendered.components[0].manifests = (0..2_500)
        .map(|n| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n}")}}))
        .collect();
    let mut store = Store::default();
    store.dispatch(&big, &[("c1", share(3, true))]);
    let names: Vec<_> = store.bundles.keys().cloned().collect();
    assert_eq!(
        names,
        [
            "cluster-c1/default.app",
            "cluster-c1/default.app.2",
            "cluster-c1/default.app.3"
        ]
    );
    // One changed manifest: all parts carry the new revision, so that they can be pruned together.
    let mut changed = big.clone();
    changed.revision = "app-v2".to_owned();
    changed.rendered.components[0].manifests[0]["data"] = json!({"a": "b"});
    store.dispatch(&changed, &[("c1", share(3, true))]);
    assert!(
        store
            .bundles
            .values()
            .all(|b| b.spec.revision.as_deref() == Some("app-v2"))
    );
    assert_eq!(store.writes, 6);

    // One manifest that is overridden, at the same revision: all parts say that they are of another division.
    let division = |store: &Store| {
        let all = store.bundles.values().map(|b| b.spec.parts_hash.clone());
        let mut all: Vec<_> = all.collect();
        all.dedup();
        all
    };
    let before = division(&store);
    assert!(matches!(before.as_slice(), [Some(_)]), "{before:?}");
    changed.rendered.components[0].manifests[2_400]["data"] = json!({"a": "b"});
    store.dispatch(&changed, &[("c1", share(3, true))]);
    assert_eq!(store.writes, 9);
    let after = division(&store);
    assert!(matches!(after.as_slice(), [Some(_)]), "{after:?}");
    assert_ne!(after, before);

    big.rendered.components[0].manifests = vec![json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "big", "namespace": "default"}, "data": {"a": "x".repeat(1_100_000)}})];
    let plan = store.plan(&big, &[("c1", share(3, true))], 1);
    let Target::Refused(refusal) = &plan.targets["c1"] else {
        panic!()
    };
    let text = refusal.to_string();
    assert!(
        text.contains("application default/app: manifest ConfigMap default/big weighs 1100225 bytes"),
        "{text}"
    );
    assert_eq!(plan.surplus, [], "what is there stays");
}

#[test]
fn a_bundle_that_would_be_emptied_goes_by_evidence_instead() {
    let mut store = Store::default();
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    let mut emptied = content(2, "a");
    emptied.rendered.components[0].manifests.clear();
    let gone = store.plan(&emptied, &[("c1", share(3, true))], 1);
    assert_eq!(gone.targets["c1"], Target::Nothing);
    assert_eq!(
        gone.surplus,
        [("cluster-c1".to_owned(), "default.app".to_owned())]
    );
    // Where nothing was, an empty one stands for the delivery.
    let mut store = Store::default();
    store.dispatch(&emptied, &[("c1", share(3, true))]);
    let kept = store.plan(&emptied, &[("c1", share(3, true))], 1);
    assert!(matches!(kept.targets["c1"], Target::Bundles(_)), "{kept:?}");
    assert_eq!(kept.surplus, []);
}

#[test]
fn a_to_b_to_a_waits_for_its_own_evidence() {
    let mut store = Store::default();
    let (a, b) = (content(1, "a"), content(2, "b"));
    store.dispatch(&a, &[("c1", share(3, true))]);
    let first = report(store.only(), BundlePhase::Ready);
    store.only().status = Some(first.clone());
    assert_eq!(store.state(&a, "c1", share(3, true)), ClusterState::Ready);
    store.dispatch(&b, &[("c1", share(3, true))]);
    assert_eq!(store.state(&b, "c1", share(3, true)), ClusterState::Waiting);
    store.dispatch(&a, &[("c1", share(3, true))]);
    assert_eq!(
        store.only().spec.hash,
        first.hash,
        "the content is the first one's again"
    );
    assert_eq!(store.state(&a, "c1", share(3, true)), ClusterState::Waiting);
    let own = report(store.only(), BundlePhase::Ready);
    store.only().status = Some(own);
    assert_eq!(store.state(&a, "c1", share(3, true)), ClusterState::Ready);
}

#[test]
fn removal_goes_by_evidence() {
    let mut store = Store::default();
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    let mut bundle = Observed::of(store.only().clone()).unwrap();
    assert_eq!(removal::next(&bundle, None), removal::Removal::Confirm);
    // Deleted by hand and still wanted: it may go at once, the agent holds the objects.
    assert_eq!(removal::next_of_wanted(&bundle), None);
    bundle.deleting = true;
    assert_eq!(removal::next_of_wanted(&bundle), Some(removal::Removal::Release));
    // Deleted by hand and not wanted: the evidence is still written first.
    assert_eq!(removal::next(&bundle, None), removal::Removal::Confirm);
    Arc::make_mut(&mut bundle.spec).deletion = Some(Deletion::default());
    assert_eq!(removal::next(&bundle, None), removal::Removal::Await);
    let cleaned = |generation| {
        Some(Arc::new(BundleStatus {
            phase: Some(BundlePhase::Cleaned),
            observed_generation: Some(generation),
            ..BundleStatus::default()
        }))
    };
    bundle.status = cleaned(bundle.generation - 1);
    assert_eq!(
        removal::next(&bundle, None),
        removal::Removal::Await,
        "of another generation"
    );
    bundle.status = cleaned(bundle.generation);
    assert_eq!(removal::next(&bundle, None), removal::Removal::Release);
    bundle.deleting = false;
    assert_eq!(removal::next(&bundle, None), removal::Removal::Delete);
}

#[test]
fn an_approval_says_more_than_garbage_collection() {
    let mut store = Store::default();
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    let mut bundle = Observed::of(store.only().clone()).unwrap();
    bundle.deleting = true;
    let (collected, deleted) = ("garbage-collection", "application-deleted");
    for (written, evidence, expected) in [
        (collected, deleted, removal::Removal::Confirm),
        (collected, "0123456789abcdef", removal::Removal::Confirm),
        (collected, collected, removal::Removal::Await),
        (deleted, collected, removal::Removal::Await),
        (deleted, "0123456789abcdef", removal::Removal::Await),
    ] {
        Arc::make_mut(&mut bundle.spec).deletion = Some(removal::evidence("app-v1", written));
        let evidence = removal::evidence("app-v1", evidence);
        assert_eq!(
            removal::next(&bundle, Some(&evidence)),
            expected,
            "{written} {evidence:?}"
        );
    }
}

#[test]
fn a_change_of_the_policy_alone_is_a_change() {
    let mut store = Store::default();
    let shares = BTreeMap::from([("c1".to_owned(), share(3, true))]);
    store.dispatch(&content(1, "a"), &[("c1", share(3, true))]);
    let rule = ApplyOnceRule {
        strategy: ApplyOnceStrategy {
            path: vec!["spec.replicas".to_owned()],
            ..ApplyOnceStrategy::default()
        },
        ..ApplyOnceRule::default()
    };
    let rules = [rule];
    for (apply_once, apply_once_rules, expected) in [
        (None, &[][..], Todo::Nothing),
        (None, &rules[..], Todo::Replace),
        (Some(ApplyOnce::Force), &[][..], Todo::Replace),
    ] {
        let plan = super::plan(&Request {
            application: &application(),
            content: &content(1, "a"),
            former: &BTreeMap::new(),
            shares: &shares,
            observed: &store.observed(),
            apply_once,
            apply_once_rules,
            executor: None,
            manifest_configs: &[],
            steps: &[],
            epoch: 1,
        });
        let Target::Bundles(wanted) = &plan.targets["c1"] else {
            panic!("{plan:?}")
        };
        assert_eq!(wanted[0].todo, expected, "{apply_once:?}");
        assert_eq!(wanted[0].spec.apply_once, apply_once);
        assert_eq!(wanted[0].spec.apply_once_rules, apply_once_rules);
    }
}

mod budget {
    use super::removal::{Verdict, budget, confirmation_hash};
    use jiff::{SignedDuration, Timestamp};
    use std::collections::BTreeMap;

    fn set(count: usize) -> BTreeMap<String, String> {
        (0..count).map(|n| (format!("c{n}"), format!("u{n}"))).collect()
    }

    #[test]
    fn more_than_ten_percent_and_at_least_two_wait() {
        let now = Timestamp::UNIX_EPOCH;
        for (losing, holding, held) in [
            (0, 5, false),
            (1, 1, false),
            (1, 5, false),
            (2, 5, true),
            (2, 20, false),
            (3, 20, true),
            (90, 100, true),
        ] {
            let verdict = budget("default/app", None, &set(losing), holding, (None, None), now);
            assert_eq!(
                matches!(verdict, Verdict::Held { .. }),
                held,
                "{losing} of {holding}"
            );
        }
    }

    #[test]
    fn removals_add_up_for_an_hour() {
        let now = Timestamp::UNIX_EPOCH;
        let one = |n: usize| BTreeMap::from([(format!("c{n}"), String::new())]);
        let Verdict::Allowed { removals, .. } = budget("a", None, &one(0), 10, (None, None), now) else {
            panic!()
        };
        let second = budget(
            "a",
            removals.as_ref(),
            &one(1),
            9,
            (None, None),
            now + SignedDuration::from_mins(59),
        );
        assert!(matches!(second, Verdict::Held { .. }), "{second:?}");
        let later = budget(
            "a",
            removals.as_ref(),
            &one(1),
            9,
            (None, None),
            now + SignedDuration::from_mins(60),
        );
        assert!(matches!(later, Verdict::Allowed { .. }), "{later:?}");
    }

    #[test]
    fn the_hour_goes_with_each_removal() {
        let at = |minutes: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
        let one = |n: usize| BTreeMap::from([(format!("c{n}"), String::new())]);
        let mut removals = None;
        // Of 25 clusters two may go in any hour: at 0, 50, then the one at 0 no longer counts.
        for (n, minutes, held) in [
            (0, 0, false),
            (1, 50, false),
            (2, 59, true),
            (2, 61, false),
            (3, 109, true),
            (3, 110, false),
        ] {
            match budget("a", removals.as_ref(), &one(n), 25 - n, (None, None), at(minutes)) {
                Verdict::Allowed { removals: after, .. } => {
                    assert!(!held, "c{n} at {minutes}");
                    // A second look before it is carried out counts nobody twice.
                    let again = budget("a", after.as_ref(), &one(n), 25 - n, (None, None), at(minutes));
                    let Verdict::Allowed { removals: again, .. } = again else {
                        panic!()
                    };
                    assert_eq!(again, after);
                    removals = after;
                }
                Verdict::Held { again, .. } => {
                    assert!(held, "c{n} at {minutes}");
                    let oldest = if minutes < 60 { 0 } else { 50 };
                    assert_eq!(again, Some(at(oldest + 60).duration_since(at(minutes))));
                }
            }
        }
    }

    #[test]
    fn what_is_remembered_of_removals_is_bounded_and_loses_no_count() {
        let second = |n: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(n);
        let mut removals = None;
        for n in 0..90_usize {
            let losing = BTreeMap::from([(format!("c{n:03}"), String::new())]);
            let moment = second(i64::try_from(n).unwrap());
            let Verdict::Allowed { removals: after, .. } =
                budget("a", removals.as_ref(), &losing, 10_000 - n, (None, None), moment)
            else {
                panic!()
            };
            removals = after;
        }
        let moments = removals.unwrap().moments;
        let (count, named): (u32, usize) = (
            moments.iter().map(|m| m.count).sum(),
            moments.iter().map(|m| m.clusters.len()).sum(),
        );
        assert_eq!((moments.len(), count, named, moments[0].of), (60, 90, 50, 10_000));
        assert_eq!(moments[0].count, 31);
    }

    #[test]
    fn who_is_counted_is_told_from_others_however_many_there_are() {
        let now = Timestamp::UNIX_EPOCH;
        let (mut losing, mut removals, mut turns) = (set(80), None, Vec::new());
        while !losing.is_empty() {
            let Verdict::Allowed {
                removals: after,
                later,
                ..
            } = budget(
                "a",
                removals.as_ref(),
                &losing,
                920 + losing.len(),
                (None, None),
                now,
            )
            else {
                panic!("80 of 1000 go, {losing:?}")
            };
            // A hub that is killed before it has carried that out finds the same, and so does one that has in part.
            let again = budget(
                "a",
                after.as_ref(),
                &losing,
                920 + losing.len(),
                (None, None),
                now,
            );
            let Verdict::Allowed { removals: same, .. } = again else {
                panic!("{again:?}")
            };
            assert_eq!(same, after);
            let all = losing.len();
            losing.retain(|cluster, _| later.contains(cluster));
            turns.push(all - losing.len());
            removals = after;
        }
        assert_eq!(turns, [50, 30]);
        let count = removals.iter().flat_map(|r| &r.moments).map(|m| m.count);
        assert_eq!(count.sum::<u32>(), 80);
        let others = |count: usize| {
            let others = (0..count).map(|n| (format!("d{n}"), String::new())).collect();
            budget("a", removals.as_ref(), &others, 920, (None, None), now)
        };
        assert!(matches!(others(20), Verdict::Allowed { .. }));
        assert!(matches!(others(21), Verdict::Held { .. }));
    }

    #[test]
    fn a_confirmation_is_for_exactly_these_clusters() {
        let now = Timestamp::UNIX_EPOCH;
        let Verdict::Held { hash, message, .. } = budget("a", None, &set(8), 10, (None, None), now) else {
            panic!()
        };
        assert!(
            message.contains(&hash)
                && message.contains("8 clusters would lose a: c0, c1, c2, c3, c4 and 3 more")
        );
        let confirmed = budget("a", None, &set(8), 10, (Some(&hash), None), now);
        assert_eq!(confirmed, Verdict::confirmed(hash.clone()));
        assert!(matches!(
            budget("a", None, &set(9), 10, (Some(&hash), None), now),
            Verdict::Held { .. }
        ));
        assert_ne!(confirmation_hash("b", &set(8), None), hash);
        let again = set(8).into_keys().map(|cluster| (cluster, "later".to_owned()));
        assert_ne!(confirmation_hash("a", &again.collect(), None), hash);
        // One that came too late is of no later question, and the answer to that is of none after it.
        let Verdict::Held { hash: second, .. } =
            budget("a", None, &set(8), 10, (Some(&hash), Some(&hash)), now)
        else {
            panic!()
        };
        let confirmed = budget("a", None, &set(8), 10, (Some(&second), Some(&hash)), now);
        assert!(matches!(confirmed, Verdict::Allowed { .. }));
        let third = budget("a", None, &set(8), 10, (Some(&second), Some(&second)), now);
        assert!(matches!(third, Verdict::Held { hash, .. } if hash != second));
    }
}

#[test]
fn the_roll_up_is_bounded_and_sorted() {
    let members: Vec<Member> = (0..200_u64)
        .map(|n| Member {
            region: if n % 2 == 0 { "east" } else { "west" }.to_owned(),
            evidence: crate::workflow::ClusterEvidence {
                cluster: format!("c{n:03}"),
                state: if n < 100 {
                    ClusterState::Ready
                } else {
                    ClusterState::Unreachable
                },
                message: String::new(),
            },
            replicas: 2,
            divided: 1,
            ready: u64::from(n < 100) * 2,
            // A cluster that is not ready is listed once.
            trouble: (n >= 40).then(|| ("Fighting".to_owned(), format!("replicas of c{n:03}"))),
        })
        .collect();
    let delivery = roll_up(&members, Unplaced::default());
    assert_eq!(
        (delivery.clusters_ready.as_str(), delivery.replicas_ready.as_str()),
        ("100/200", "200/400")
    );
    assert_eq!(
        delivery.placed, 200,
        "what is not divided is not placed, and runs all the same"
    );
    assert_eq!((delivery.not_ready.len(), delivery.omitted), (50, Some(50)));
    assert_eq!(delivery.not_ready[0].cluster, "c100");
    assert_eq!(
        (delivery.degraded.len(), delivery.degraded_omitted),
        (50, Some(10))
    );
    let first = &delivery.degraded[0];
    assert_eq!(
        (
            first.cluster.as_str(),
            first.phase.as_str(),
            first.message.as_str()
        ),
        ("c040", "Fighting", "replicas of c040")
    );
    let regions: Vec<_> = delivery
        .regions
        .iter()
        .map(|r| (r.region.as_str(), r.ready, r.unreachable))
        .collect();
    assert_eq!(regions, [("east", 50, 50), ("west", 50, 50)]);
}

#[test]
fn reasons_and_regions_are_bounded_and_what_is_left_out_is_counted() {
    let member = |n: u32| Member {
        region: format!("r{n:03}"),
        evidence: crate::workflow::ClusterEvidence {
            cluster: format!("c{n:03}"),
            state: match n % 3 {
                0 => ClusterState::Ready,
                1 => ClusterState::Failed,
                _ => ClusterState::Unreachable,
            },
            message: String::new(),
        },
        replicas: 2,
        divided: 2,
        ready: 1,
        trouble: None,
    };
    let unplaced = |count: usize| Unplaced {
        count: 9,
        reasons: (0..count).map(|n| format!("reason {n:03}")).collect(),
    };
    let all = |count: u32| (0..count).map(member).collect::<Vec<_>>();
    let most = u32::try_from(MAX_REGIONS).unwrap();
    let whole = roll_up(&all(most), unplaced(20));
    assert_eq!((whole.regions.len(), whole.regions_omitted), (MAX_REGIONS, None));
    assert_eq!((whole.unplaced_reasons.len(), whole.unplaced_omitted), (20, None));
    let cut = roll_up(&all(most + 9), unplaced(27));
    assert_eq!(
        (cut.regions.len(), cut.regions_omitted),
        (MAX_REGIONS + 1, Some(9))
    );
    assert_eq!((cut.unplaced_reasons.len(), cut.unplaced_omitted), (20, Some(7)));
    let others = cut.regions.last().unwrap();
    assert_eq!(others.region, OTHER_REGIONS);
    // The value of a label begins with a letter or a digit.
    assert!(!OTHER_REGIONS.starts_with(char::is_alphanumeric));
    assert_eq!(
        (others.clusters, others.replicas, others.replicas_ready),
        (9, 18, 9)
    );
    assert_eq!((others.ready, others.failed, others.unreachable), (3, 3, 3));
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Move {
        Dispatch(u8),
        /// The agent reads the bundle as it is now.
        Read,
        /// The agent reports on what it read, possibly long ago; reports arrive late and out of order.
        Report(usize),
        /// Somebody deletes the bundle: the next one has another uid.
        Vanish,
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let one = prop_oneof![
            3 => (0_u8..3).prop_map(Move::Dispatch),
            3 => Just(Move::Read),
            4 => (0_usize..8).prop_map(Move::Report),
            1 => Just(Move::Vanish),
        ];
        proptest::collection::vec(one, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn ready_means_read_and_reported_since_it_was_written(moves in moves()) {
            let images = ["a", "b", "c"];
            let mut store = Store::default();
            let mut reads: Vec<Bundle> = Vec::new();
            let mut wanted = content(1, "a");
            for one in moves {
                match one {
                    Move::Dispatch(image) => {
                        wanted = content(1, images[usize::from(image)]);
                        store.dispatch(&wanted, &[("c1", share(3, true))]);
                    }
                    Move::Read => reads.extend(store.bundles.values().next().cloned()),
                    Move::Report(back) => {
                        let Some(read) = reads.iter().rev().nth(back % 4) else { continue };
                        // A status is written to the object that was read: another uid is refused by the server.
                        if let Some(bundle) = store.bundles.values_mut().next()
                            && bundle.metadata.uid == read.metadata.uid
                        {
                            bundle.status = Some(report(read, BundlePhase::Ready));
                        }
                    }
                    Move::Vanish => store.bundles.clear(),
                }
                if store.state(&wanted, "c1", share(3, true)) == ClusterState::Ready {
                    let bundle = store.bundles.values().next().unwrap();
                    prop_assert!(
                        reads.iter().any(|r| r.metadata.uid == bundle.metadata.uid
                            && r.metadata.generation == bundle.metadata.generation
                            && r.spec == bundle.spec),
                        "nobody read what is counted as ready"
                    );
                }
            }
        }
    }
}

mod refusals {
    use super::removal::{refusal, refused_kinds};
    use crate::dispatch::Observed;
    use serde_json::{Value, json};
    use std::collections::{BTreeMap, BTreeSet};

    /// A Bundle whose agent reports these kinds, each with why it is still there.
    fn reporting(kinds: &[(&str, &str)]) -> Observed {
        let listed: Vec<Value> = kinds
            .iter()
            .map(|(kind, reason)| {
                json!({"resourceMeta": {"ordinal": 0, "kind": kind, "name": "w"}, "conditions": [{"type": "Removed",
                    "status": "False", "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
            })
            .collect();
        let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
            "metadata": {"name": "default.app", "namespace": "cluster-c1", "uid": "u"},
            "spec": {"workload": {"manifests": []}}, "status": {"resourceStatus": {"manifests": listed}}});
        Observed::of(serde_json::from_value(bundle).unwrap()).unwrap()
    }

    #[test]
    fn people_are_told_what_fits_the_kinds_that_are_kept() {
        let refused = BTreeMap::from([("c1".to_owned(), "u".to_owned())]);
        for (kinds, way) in [
            (&[][..], "c1; scale them to 0, or annotate"),
            (
                &[("Deployment", "RemovalRefused"), ("Service", "Removing")],
                "c1; scale each Deployment to 0, or annotate",
            ),
            (
                &[("Job", "RemovalRefused")],
                "c1; let each Job end or suspend it, or annotate",
            ),
            (&[("DaemonSet", "RemovalRefused")], "c1; annotate"),
            (
                &[
                    ("CloneSet", "RemovalRefused"),
                    ("DaemonSet", "RemovalRefused"),
                    ("Deployment", "RemovalRefused"),
                    ("Job", "RemovalRefused"),
                ],
                "c1; scale each CloneSet and Deployment to 0, or let each Job end or suspend it, or annotate",
            ),
        ] {
            let kinds: BTreeSet<String> = refused_kinds(&reporting(kinds));
            let (hash, message) = refusal("default/app", &refused, &kinds).unwrap();
            assert!(message.contains(way) && message.contains(&hash), "{message}");
            assert!(message.contains("still run and apply-once is on"), "{message}");
        }
        assert_eq!(refusal("default/app", &BTreeMap::new(), &BTreeSet::new()), None);
    }
}
