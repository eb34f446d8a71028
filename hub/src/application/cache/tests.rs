//! Who is woken by a change of a cluster.

use super::*;
use crate::{application::placements::StoredPlacement as Held, leader::Term, placement::PlacingStep};
use kube::core::ApiResource;
use roundhouse_api::{
    application::Application,
    cluster::{Cluster, ClusterSpec},
    placement::Placement,
};
use serde_json::json;

const APPLICATIONS: usize = 1000;

fn cluster(name: &str, labels: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new(
        name,
        ClusterSpec {
            accepted: true,
            ..ClusterSpec::default()
        },
    );
    cluster.metadata.labels = Some(
        labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
    );
    cluster
}

fn key(n: usize) -> Key {
    ("default".to_owned(), format!("app-{n:04}"))
}

/// A thousand applications that select by region, but for every hundredth, which selects by team. Those of `holders` have
/// a Bundle on c1.
fn thousand(holders: std::ops::Range<usize>) -> Cache {
    let cache = Cache::default();
    for n in 0..APPLICATIONS {
        let label = if n % 100 == 0 { "team" } else { "region" };
        let placement = json!({"placement": [{"clusterSelector": {label: "a"}, "replicas": "100%"}]});
        let resource = ApiResource::erase::<Application>(&());
        let mut object = DynamicObject::new(&key(n).1, &resource).data(json!({"spec": {}}));
        object.metadata.namespace = Some(key(n).0);
        cache.put_application(object);
        let spec = serde_json::from_value(placement).unwrap();
        let steps = [PlacingStep {
            name: "s",
            spec: &spec,
        }];
        cache.looks_at(&key(n), Some(Sight::of(&steps)));
    }
    for n in holders {
        cache.put_bundle(Observed {
            namespace: "cluster-c1".to_owned(),
            name: format!("default.{}", key(n).1),
            cluster: "c1".to_owned(),
            spec: Arc::new(roundhouse_api::bundle::BundleSpec {
                application_ref: Some(application(n)),
                ..Default::default()
            }),
            ..Observed::default()
        });
    }
    cache
}

fn application(n: usize) -> roundhouse_api::bundle::ApplicationRef {
    roundhouse_api::bundle::ApplicationRef {
        namespace: key(n).0,
        name: key(n).1,
        uid: String::new(),
    }
}

#[test]
fn only_those_who_can_see_a_label_are_looked_at() {
    see_labels(&thousand(0..0), 990);
    // Who holds a cluster shows its region.
    see_labels(&thousand(0..APPLICATIONS), APPLICATIONS);
}

/// Of a change of a label that one application in a hundred reads, 10 of 1,000 hear, also where all of them hold the
/// cluster.
fn see_labels(cache: &Cache, region: usize) {
    cache.put_cluster(&cluster("c1", &[("region", "a")]));
    let woken = |labels: &[(&str, &str)]| cache.put_cluster(&cluster("c1", labels)).len();
    assert_eq!(
        woken(&[("region", "a"), ("rack", "12")]),
        0,
        "a label that nobody reads"
    );
    assert_eq!(woken(&[("region", "a"), ("team", "a")]), 10);
    assert_eq!(woken(&[("region", "a"), ("team", "a")]), 0, "the same again");
    assert_eq!(woken(&[("team", "a")]), region);
}

#[test]
fn who_has_filled_a_label_in_hears_of_it() {
    let cache = thousand(0..APPLICATIONS);
    cache.put_cluster(&cluster("c1", &[("region", "a"), ("zone", "1")]));
    let mut decision = Decision::new("app-0003-s", Default::default());
    decision.metadata.namespace = Some("default".to_owned());
    decision.spec.application_ref = application(3);
    decision.spec.step = "s".to_owned();
    let of = |cluster: &str, key: &str| {
        let labels = BTreeMap::from([(key.to_owned(), "1".to_owned())]);
        (cluster.to_owned(), labels)
    };
    decision.spec.cluster_labels = BTreeMap::from([of("c1", "zone"), of("c2", "rack")]);
    cache.put_decision(decision);
    let woken = |labels: &[(&str, &str)]| cache.put_cluster(&cluster("c1", labels));
    let region = ("region", "a");
    assert_eq!(woken(&[region, ("zone", "2")]), BTreeSet::from([key(3)]));
    assert_eq!(woken(&[region]), BTreeSet::from([key(3)]));
    assert_eq!(woken(&[region, ("rack", "2")]).len(), 0, "of another cluster");
}

#[test]
fn only_those_who_match_a_cluster_hear_that_it_joins_or_leaves() {
    let cache = thousand(0..APPLICATIONS);
    cache.put_cluster(&cluster("c1", &[("region", "a"), ("team", "a")]));
    for (labels, expected) in [
        (vec![("team", "a")], 10),
        (vec![("region", "a")], 990),
        (vec![("region", "b"), ("team", "b")], 0),
        (vec![("region", "a"), ("team", "a")], APPLICATIONS),
    ] {
        assert_eq!(
            cache.put_cluster(&cluster("c2", &labels)).len(),
            expected,
            "{labels:?} joins"
        );
        assert_eq!(cache.remove_cluster("c2").len(), expected, "{labels:?} leaves");
    }
    assert_eq!(cache.remove_cluster("c2").len(), 0);
    // Of the last that they match they hear, and then of regions and teams, since they are told which there are.
    assert_eq!(cache.remove_cluster("c1").len(), APPLICATIONS);
    cache.put_cluster(&cluster("c3", &[("rack", "12")]));
    assert_eq!(cache.put_cluster(&cluster("c4", &[("team", "b")])).len(), 10);
    assert_eq!(cache.put_cluster(&cluster("c5", &[("rack", "13")])).len(), 0);
}

#[test]
fn who_was_not_understood_yet_is_looked_at_whatever_happens() {
    let cache = thousand(0..APPLICATIONS);
    cache.put_cluster(&cluster("c1", &[]));
    cache.looks_at(&key(7), None);
    assert_eq!(
        cache.put_cluster(&cluster("c1", &[("rack", "12")])),
        BTreeSet::from([key(7)])
    );
}

#[test]
fn who_holds_a_cluster_hears_that_it_is_out_of_reach() {
    let cache = thousand(5..6);
    cache.put_cluster(&cluster("c1", &[("rack", "1")]));
    let mut away = cluster("c1", &[("rack", "1")]);
    away.status = Some(
        serde_json::from_value(json!({"conditions": [{"type": "Available", "status": "Unknown",
        "reason": "LeaseNotRenewed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}))
        .unwrap(),
    );
    let woken = cache.put_cluster(&away);
    assert_eq!(woken, BTreeSet::from([key(5)]));
}

fn placement(name: &str, version: &str, spec: &Value) -> DynamicObject {
    let resource = ApiResource::erase::<Placement>(&());
    let mut object = DynamicObject::new(name, &resource).data(json!({"spec": spec}));
    object.metadata.namespace = Some("default".to_owned());
    object.metadata.resource_version = Some(version.to_owned());
    object
}

#[test]
fn a_placement_wakes_those_who_refer_to_it_when_it_says_something_else() {
    let cache = Cache::default();
    let resource = ApiResource::erase::<Application>(&());
    let refer = |name: &str, reference: Value| {
        let spec = json!({"workflow": {"steps": [{"properties": {"placementRef": reference}}]}});
        let mut object = DynamicObject::new(name, &resource).data(json!({"spec": spec}));
        object.metadata.namespace = Some("default".to_owned());
        cache.put_application(object)
    };
    refer("a", json!("regions"));
    refer("b", json!({"name": "others"}));
    let a = || BTreeSet::from([("default".to_owned(), "a".to_owned())]);
    let key = ("default".to_owned(), "regions".to_owned());
    let spec = json!({"placement": [{"replicas": "70%"}]});
    assert_eq!(cache.put_placement(placement("regions", "1", &spec)), a());
    assert_eq!(
        cache.put_placement(placement("regions", "2", &spec)).len(),
        0,
        "a status, or a label"
    );
    let refused = json!({"placement": [{"replica": "70%"}]});
    assert_eq!(cache.put_placement(placement("regions", "4", &refused)), a());
    assert_eq!(
        cache.put_placement(placement("regions", "3", &spec)).len(),
        0,
        "it is older"
    );
    let held: Arc<Held> = cache.placement(&key).unwrap().0;
    assert!(held.verdict.is_err());
    assert_eq!(cache.take_stale(), BTreeSet::from([key.clone()]));
    assert_eq!(cache.placement(&key).unwrap().1, 1);
    refer("a", json!("others"));
    assert_eq!(cache.placement(&key).unwrap().1, 0);
    assert_eq!(cache.take_stale(), BTreeSet::from([key.clone()]));
    assert_eq!(
        cache.remove_placement(&key).len(),
        0,
        "nobody refers to it any more"
    );
}

#[test]
fn taints_count_from_when_the_hub_saw_them() {
    let mut cluster = cluster("c1", &[]);
    cluster.spec.taints = serde_json::from_value(json!([
        {"key": "a", "effect": "NoExecute"},
        {"key": "a", "effect": "NoExecute", "value": "b"},
        {"key": "own", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:05Z"}]))
    .unwrap();
    cluster.status = Some(
        serde_json::from_value(json!({"taintsSeen": [
            {"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:01Z"},
            {"key": "own", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:01Z"}]}))
        .unwrap(),
    );
    let cache = Cache::default();
    cache.put_cluster(&cluster);
    let fleet = cache.fleet();
    let taints = &fleet.members["c1"].facts.taints;
    let added: Vec<Option<i64>> = taints
        .iter()
        .map(|t| Some(t.time_added.as_ref()?.0.as_second() % 60))
        .collect();
    assert_eq!(added, [Some(1), None, Some(5)]);
    assert_eq!(fleet.inventory.get("c1").map(|facts| &facts.taints), Some(taints));
}

#[test]
fn what_was_understood_is_kept_as_long_as_the_spec_is() {
    let cache = Cache::default();
    let resource = ApiResource::erase::<Application>(&());
    let stored = |uid: &str, generation, version: &str| {
        let mut object = DynamicObject::new("app", &resource).data(json!({"spec": {}}));
        object.metadata.namespace = Some("default".to_owned());
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.generation = Some(generation);
        object.metadata.resource_version = Some(version.to_owned());
        cache.put_application(object).understood.clone()
    };
    let first = stored("a", 1, "1");
    assert!(Arc::ptr_eq(&first, &stored("a", 1, "2")), "a status was written");
    let second = stored("a", 2, "3");
    assert!(!Arc::ptr_eq(&first, &second), "another spec");
    assert!(!Arc::ptr_eq(&second, &stored("b", 2, "4")), "another application");
    let app = cache
        .application(&("default".to_owned(), "app".to_owned()))
        .unwrap();
    assert!(app.understand(&json!({"components": 1})).is_err());
    assert!(app.understood.lock().is_some());
    app.forget_at_rest();
    assert!(app.understood.lock().is_none(), "no run is under way");
}

/// A Bundle of a cluster and an application at a version, with a report of its content where there is a phase.
fn bundle(
    cluster: u8,
    app: u8,
    version: u64,
    phase: Option<roundhouse_api::bundle::BundlePhase>,
) -> Observed {
    use roundhouse_api::bundle::{BundleSpec, BundleStatus, Counts};
    let hash = Some("h".to_owned());
    let status = phase.map(|phase| BundleStatus {
        hash: hash.clone(),
        observed_generation: Some(1),
        phase: Some(phase),
        counts: Some(Counts {
            total: 5,
            ..Counts::default()
        }),
        ..BundleStatus::default()
    });
    Observed {
        namespace: format!("cluster-c{cluster}"),
        name: format!("default.app-{app}"),
        cluster: format!("c{cluster}"),
        resource_version: version.to_string(),
        generation: 1,
        replicas: u64::from(app),
        spec: Arc::new(BundleSpec {
            // What nobody dispatched is of no application.
            application_ref: (app > 0).then(|| application(app.into())),
            hash,
            ..BundleSpec::default()
        }),
        status: status.map(Arc::new),
        ..Observed::default()
    }
}

#[test]
fn the_sums_over_bundles_are_those_of_counting_them_anew() {
    use crate::fleet::{Counts, Tally};
    use roundhouse_api::bundle::BundlePhase;
    let cache = Cache::default();
    // A fixed sequence that meets every Bundle many times: new, changed, older than what is held, gone.
    let mut dice = 7_u64;
    let mut roll = |sides: u64| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    for version in 1..2_000_u64 {
        let of = |n: u64| u8::try_from(n).unwrap();
        let (cluster, app) = (of(roll(5)), of(roll(4)));
        let phase = [None, Some(BundlePhase::Ready), Some(BundlePhase::Failed)][usize::from(of(roll(3)))];
        match roll(4) {
            0 => drop(cache.remove_bundle(&(format!("cluster-c{cluster}"), format!("default.app-{app}")))),
            1 => drop(cache.put_bundle(bundle(cluster, app, version.saturating_sub(roll(50)), phase))),
            _ => drop(cache.put_bundle(bundle(cluster, app, version, phase))),
        }
        let state = cache.state.read();
        let mut anew = Counts::default();
        for held in state.bundles.values() {
            anew.add(&held.cluster, application_of(held).as_ref(), Tally::of(held));
        }
        assert_eq!(state.counts, anew, "after change {version}");
    }
    assert!(cache.tally().bundles > 0);
    for key in cache.held(Kind::Bundle).into_keys() {
        cache.remove_bundle(&key);
    }
    assert_eq!(cache.state.read().counts, Counts::default());
}

#[test]
fn what_is_told_to_be_gone_before_our_own_release_of_it_is_answered_is_not_held_again() {
    let cache = Cache::default();
    let resource = ApiResource::erase::<Application>(&());
    let put = |version: &str, finalizers: &[&str]| {
        let mut object = DynamicObject::new("a", &resource).data(json!({}));
        object.metadata.namespace = Some("default".to_owned());
        object.metadata.resource_version = Some(version.to_owned());
        object.metadata.finalizers = Some(finalizers.iter().map(|one| (*one).to_owned()).collect());
        object.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        cache.put_application(object).key()
    };
    let of_bundle = |version, finalizers: &[&str]| Observed {
        deleting: true,
        finalizers: finalizers.iter().map(|one| (*one).to_owned()).collect(),
        ..bundle(1, 1, version, None)
    };
    let application = put("4", &["ours"]);
    cache.put_bundle(of_bundle(4, &["ours"]));
    assert_eq!(cache.applications(), std::slice::from_ref(&application));
    // The watch first, and then the answer.
    cache.remove_application(&application);
    for bundle in cache.held(Kind::Bundle).into_keys() {
        cache.remove_bundle(&bundle);
    }
    put("5", &[]);
    cache.put_bundle(of_bundle(5, &[]));
    assert!(cache.applications().is_empty() && cache.held(Kind::Bundle).is_empty());
    // The answer first.
    put("6", &["ours"]);
    cache.put_bundle(of_bundle(6, &["ours"]));
    put("7", &[]);
    cache.put_bundle(of_bundle(7, &[]));
    assert!(cache.applications().is_empty() && cache.held(Kind::Bundle).is_empty());
    assert_eq!(cache.tally().bundles, 0);
}

/// What was decided is kept where somebody else deletes it, while this hub leads and its application is there.
#[test]
fn a_decision_that_is_deleted_is_kept_to_be_written_again() {
    let leading = Leading::default();
    let lead = |epoch: i64| leading.set(Some(Term { epoch, confirmed: 0 }));
    let cache = Cache::new(Metrics::default(), leading.clone());
    let put_application = |deleting: bool| {
        let resource = ApiResource::erase::<Application>(&());
        let mut object = DynamicObject::new(&key(3).1, &resource).data(json!({"spec": {}}));
        object.metadata.namespace = Some(key(3).0);
        object.metadata.uid = Some(application(3).uid);
        object.metadata.deletion_timestamp =
            deleting.then(|| serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        object.metadata.finalizers = Some(vec!["some".to_owned()]);
        cache.put_application(object);
    };
    let name = (key(3).0, "app-0003-s".to_owned());
    let made = std::cell::Cell::new(0);
    // Each is another one.
    let put = || {
        made.set(made.get() + 1);
        let mut decision = Decision::new(&name.1, Default::default());
        decision.metadata.namespace = Some(name.0.clone());
        decision.metadata.uid = Some(format!("u{}", made.get()));
        decision.spec.application_ref = application(3);
        decision.spec.step = "s".to_owned();
        cache.put_decision(decision);
    };
    // Steps that count, whether the Decision exists, and what is to be written again in a term.
    let state = |epoch: i64| {
        let lost = cache.lost_decisions(&key(3), epoch).len();
        let exists = cache.decision(&name).is_some();
        assert_eq!(cache.held(Kind::Decision).contains_key(&name), exists);
        (cache.decisions(&key(3)).len(), exists, lost)
    };
    put_application(false);
    put();
    assert_eq!(state(1), (1, true, 0));
    // A hub that does not lead does not know why it went.
    assert_eq!(cache.lose_decision(&name), Some(key(3)));
    assert_eq!(state(1), (0, false, 0));
    put();
    lead(1);
    assert_eq!(cache.lose_decision(&name), Some(key(3)));
    assert_eq!(state(1), (1, false, 1));
    assert_eq!(
        cache.lose_decision(&name),
        Some(key(3)),
        "a list says it once more"
    );
    assert_eq!(state(1), (1, false, 1));
    put();
    assert_eq!(state(1), (1, true, 0));
    // Another one has led meanwhile.
    cache.lose_decision(&name);
    lead(3);
    assert_eq!(state(3), (0, false, 0));
    // With the application it goes, and what the hub lets go itself is gone.
    put();
    cache.lose_decision(&name);
    assert_eq!(state(3), (1, false, 1));
    cache.remove_application(&key(3));
    assert_eq!(state(3), (0, false, 0));
    put_application(true);
    put();
    cache.lose_decision(&name);
    assert_eq!(state(3), (0, false, 0));
    put_application(false);
    put();
    cache.forget_decision(&name);
    assert_eq!(cache.lose_decision(&name), None);
    assert_eq!(state(3), (0, false, 0));
    // Whichever comes first, the answer or the word that it is gone.
    put();
    let decision = cache.decision(&name).unwrap();
    cache.lets_decision_go(&name, &decision);
    cache.lose_decision(&name);
    assert_eq!(state(3), (0, false, 0));
    // The next one of that name is another one.
    put();
    let answer = Decision::clone(&cache.decision(&name).unwrap());
    cache.lose_decision(&name);
    assert_eq!(state(3), (1, false, 1));
    // The answer to its write comes late, and does not bring it back; what is read does: an old list had not shown it.
    cache.wrote_decision(answer.clone());
    assert_eq!(state(3), (1, false, 1));
    cache.put_decision(answer);
    assert_eq!(state(3), (1, true, 0));
    cache.lose_decision(&name);
    assert_eq!(state(3), (1, false, 1));
    // One of a term that is to come, and one that somebody has copied, go for good.
    for (of, epoch, kept) in [(&*name.1, 3, 1), (&name.1, 4, 0), ("app-0003-copy", 3, 0)] {
        let named = (name.0.clone(), of.to_owned());
        let mut copy = Decision::clone(&decision);
        copy.metadata.name = Some(of.to_owned());
        copy.metadata.uid = Some(format!("{of} {epoch}"));
        copy.spec.epoch = epoch;
        cache.put_decision(copy);
        cache.lose_decision(&named);
        assert_eq!(cache.lost_decisions(&key(3), 3).len(), kept, "{of} {epoch}");
        cache.forget_decision(&named);
    }
}
