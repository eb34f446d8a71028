//! Small fleets and what is asked of them.

use crate::{
    explain::{Aim, Change, Reason, Search, Setting, Step, StepAnswer, conditions, search},
    placement::{ClusterFacts, Previous, Workload},
};
use roundhouse_api::{
    decision::WorkloadRef,
    placement::{Taint, TaintEffect},
};
use serde_json::Value;

pub(super) use crate::placement::tests::cluster;

pub(super) fn taint(key: &str, value: &str, effect: TaintEffect) -> Taint {
    Taint {
        key: key.to_owned(),
        value: (!value.is_empty()).then(|| value.to_owned()),
        effect,
        time_added: None,
    }
}

pub(super) fn web() -> WorkloadRef {
    WorkloadRef {
        kind: "Deployment".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
    }
}

/// Steps with their placement, a Deployment `web`, and clusters.
pub(super) fn setting(
    steps: &[(&str, Value)],
    replicas: u32,
    clusters: impl IntoIterator<Item = ClusterFacts>,
) -> Setting {
    Setting {
        application: "default/checkout".to_owned(),
        steps: steps
            .iter()
            .map(|(name, spec)| Step {
                name: (*name).to_owned(),
                spec: serde_json::from_value(spec.clone()).unwrap(),
                only: None,
            })
            .collect(),
        workloads: vec![Workload {
            key: web(),
            replicas,
            once: false,
        }],
        inventory: clusters.into_iter().collect(),
        ..Setting::default()
    }
}

/// The same with other facts of a cluster.
pub(super) fn facing(mut setting: Setting, cluster: &str, change: impl FnOnce(&mut ClusterFacts)) -> Setting {
    let mut facts = setting.cluster(cluster).unwrap().clone();
    change(&mut facts);
    setting.inventory.put(facts);
    setting
}

/// The same after what it decides now was carried out.
pub(super) fn settled(mut setting: Setting) -> Setting {
    setting.previous = Previous::from_steps(&setting.place());
    setting
}

/// How a cluster fares in the first step.
pub(super) fn answer(setting: &Setting, cluster: &str) -> StepAnswer {
    conditions(setting, &setting.place(), cluster).unwrap().remove(0)
}

/// The decisive condition: what it is about, what it asks for and what there is. There is only one.
pub(super) fn decisive(answer: &StepAnswer) -> [String; 3] {
    let mut all = answer.conditions.iter().filter(|condition| condition.decisive);
    let one = all
        .next()
        .unwrap_or_else(|| panic!("nothing is decisive: {answer:#?}"));
    assert!(all.next().is_none(), "two are decisive: {answer:#?}");
    [one.about.to_owned(), one.asks.clone(), one.found.clone()]
}

/// The search for the first step.
pub(super) fn flips(setting: &Setting, cluster: &str) -> Search {
    search(setting, cluster, 0, Aim::Include).unwrap()
}

/// What a person who takes the advice makes of the setting.
pub(super) fn with(setting: &Setting, cluster: &str, changes: &[Change]) -> Setting {
    let mut changed = setting.clone();
    changes
        .iter()
        .for_each(|change| change.apply(&mut changed, cluster));
    changed
}

/// Whether a cluster has replicas of a step, read off the decision by hand.
pub(super) fn has_replicas(setting: &Setting, cluster: &str, step: usize) -> bool {
    let decision = &setting.place()[step];
    let mut rows = decision.workloads.iter().flat_map(|workload| &workload.clusters);
    match decision.workloads.is_empty() {
        true => decision.clusters.iter().any(|name| name == cluster),
        false => rows.any(|row| row.name == cluster && row.replicas > 0),
    }
}

/// The cluster is not placed for this reason, the decisive condition is this one, every flip does flip it, and the
/// smallest is this one.
pub(super) fn check(setting: &Setting, cluster: &str, reason: Reason, about: &str, smallest: &[Change]) {
    let answer = answer(setting, cluster);
    assert_eq!(answer.reason, reason, "{answer:#?}");
    assert_eq!(decisive(&answer)[0], about, "{answer:#?}");
    assert!(!has_replicas(setting, cluster, 0));
    let found = flips(setting, cluster);
    assert!(found.complete);
    assert!(!found.flips.is_empty(), "nothing flips it");
    for flip in &found.flips {
        let changed = with(setting, cluster, &flip.changes);
        assert!(has_replicas(&changed, cluster, 0), "{flip:?} does not flip it");
    }
    assert_eq!(found.flips[0].changes, smallest, "{found:#?}");
}
