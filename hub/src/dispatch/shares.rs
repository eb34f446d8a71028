//! Which cluster gets how many replicas, over all steps of a run.

use super::{
    mixed::Source,
    overrides::{Applied, Filler},
};
use crate::render::JobShare;
use roundhouse_api::decision::{DecidedOverride, DecisionSpec, Waiting, WorkloadDecision, WorkloadRef};
use std::{collections::BTreeMap, sync::Arc};

/// What one step placed.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// Step name.
    pub step: &'a str,
    /// Whether the present run reached it; otherwise this is what the last finished run placed.
    pub reached: bool,
    /// The revision that was placed.
    pub revision: &'a str,
    /// The components that it dispatches; empty for all of them.
    pub components: &'a [String],
    /// The division.
    pub workloads: &'a [WorkloadDecision],
    /// Clusters that get a bundle, or keep theirs.
    pub clusters: &'a [String],
    /// The overrides that apply to them.
    pub overrides: &'a [DecidedOverride],
    /// Cluster -> label -> value, as far as overrides name labels.
    pub cluster_labels: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// The clusters to which the step has not come with this: they keep what they have.
    pub waiting: &'a [Waiting],
    /// Clusters on which the step has placed what is not known any more: nothing changes there.
    pub lost: &'a [String],
}

impl<'a> Layer<'a> {
    /// What a Decision contributes.
    pub fn of(reached: bool, decision: &'a DecisionSpec) -> Self {
        Layer {
            step: &decision.step,
            reached,
            revision: &decision.revision,
            components: &decision.components,
            workloads: &decision.workloads,
            clusters: &decision.clusters,
            overrides: &decision.overrides,
            cluster_labels: &decision.cluster_labels,
            waiting: &decision.waiting,
            lost: &[],
        }
    }

    /// Whether the present run has reached a cluster by this step, and the revision that the step gave it last, if any.
    fn given(&self, cluster: &str) -> (bool, Option<&'a str>) {
        match self.waiting.iter().find(|waiting| waiting.has(cluster)) {
            None => (self.reached, Some(self.revision)),
            Some(waiting) => (false, waiting.revision.as_deref()),
        }
    }
}

/// What one cluster gets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Share {
    /// The last step that places on this cluster.
    pub step: String,
    /// Whether a step of the present run places on it: then it gets the present revision.
    pub reached: bool,
    /// The revision that the last step placed; empty where no step has come to the cluster.
    pub revision: String,
    /// The steps before that one that place on this cluster, each with the revision that it gave it.
    pub earlier: Vec<(String, String)>,
    /// Replicas by workload: what rules divide, or the full count of a duplicate rule, whichever is more.
    pub replicas: BTreeMap<WorkloadRef, JobShare>,
    /// Of those, the replicas that were divided (duplicates are not).
    pub divided: u64,
    /// Whether there are replicas to divide and this cluster gets none.
    pub empty: bool,
    /// The overrides for this cluster, in order: those of the last step that the present run has reached and that places
    /// on it, or of the last step where the run has reached none.
    pub overrides: Vec<Arc<Applied>>,
    /// The step that they are of.
    pub overridden_by: String,
    /// Where steps dispatch single components: what each of them gives this cluster, in order.
    pub sources: Vec<Source>,
    /// The step that has placed on this cluster what is not known any more.
    pub lost: Option<String>,
}

impl Share {
    /// The replicas of all its workloads.
    pub fn total(&self) -> u64 {
        self.replicas.values().map(|part| u64::from(part.replicas)).sum()
    }

    /// The steps that place on this cluster, in order, each with the revision that it gave it.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &str)> {
        let earlier = self.earlier.iter().map(|(step, revision)| (&**step, &**revision));
        earlier.chain([(&*self.step, &*self.revision)])
    }
}

/// Lays the steps over one another, in order: for the same workload and cluster a later step replaces, never adds. A step
/// that gives a cluster nothing of a workload, where the cluster only keeps its bundle, replaces nothing either.
pub fn shares<'a>(layers: &[Layer<'a>]) -> BTreeMap<String, Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    let mut divided: BTreeMap<(&str, &WorkloadRef), u32> = BTreeMap::new();
    let mut placed: BTreeMap<&WorkloadRef, u32> = BTreeMap::new();
    let mut filler = Filler::default();
    let parted = layers.iter().any(|layer| !layer.components.is_empty());
    for layer in layers {
        for cluster in layer.lost {
            shares.entry(cluster.clone()).or_default().lost = Some(layer.step.to_owned());
        }
        for cluster in layer.clusters {
            let (reached, given) = layer.given(cluster);
            let share = shares.entry(cluster.clone()).or_default();
            let Some(revision) = given else {
                // It has nothing of this step yet.
                if share.step.is_empty() {
                    layer.step.clone_into(&mut share.step);
                }
                continue;
            };
            if parted {
                share.sources.push(Source {
                    step: layer.step.to_owned(),
                    revision: revision.to_owned(),
                    reached,
                    components: layer.components.to_vec(),
                    overrides: Vec::new(),
                });
            }
            if !share.revision.is_empty() {
                let earlier = (
                    std::mem::take(&mut share.step),
                    std::mem::take(&mut share.revision),
                );
                share.earlier.push(earlier);
            }
            layer.step.clone_into(&mut share.step);
            revision.clone_into(&mut share.revision);
            if reached || !share.reached {
                layer.step.clone_into(&mut share.overridden_by);
                share.overrides.clear();
            }
            share.reached |= reached;
        }
        for decided in layer.overrides {
            for cluster in &decided.clusters {
                let Some(share) = shares.get_mut(cluster) else {
                    continue;
                };
                let source = share
                    .sources
                    .last_mut()
                    .filter(|source| source.step == layer.step);
                let labels = layer.cluster_labels.get(cluster);
                if let Some(source) = source {
                    let filled = filler.fill(layer.step, decided, cluster, labels);
                    source.overrides.push(filled);
                }
                if share.overridden_by == layer.step {
                    let filled = filler.fill(layer.step, decided, cluster, labels);
                    share.overrides.push(filled);
                }
            }
        }
        for workload in layer.workloads {
            // Divided, full count, and what was given before the divided ones where that is remembered.
            let mut of_step: BTreeMap<&str, (u32, u32, Option<u32>)> = BTreeMap::new();
            for assignment in &workload.clusters {
                let (parted, full, first) = of_step.entry(&assignment.name).or_default();
                match assignment.duplicate {
                    true => *full = (*full).max(assignment.replicas),
                    false => *parted = parted.saturating_add(assignment.replicas),
                }
                *first = first.or(assignment.before);
            }
            for cluster in layer.clusters {
                let (parted, full, first) = of_step.get(cluster.as_str()).copied().unwrap_or_default();
                let before = placed.entry(&workload.workload).or_default();
                if let Some(share) = shares.get_mut(cluster) {
                    let had = share.replicas.contains_key(&workload.workload);
                    if had && parted.max(full) == 0 {
                        continue;
                    }
                    if had && layer.given(cluster).1.is_none() {
                        // The step has not come to it; what comes after it on others stays in its place.
                        *before = before.saturating_add(parted);
                        continue;
                    }
                    let part = JobShare {
                        before: if full > 0 { 0 } else { first.unwrap_or(*before) },
                        replicas: parted.max(full),
                        of_total: workload.replicas,
                    };
                    share.replicas.insert(workload.workload.clone(), part);
                    *before = before.saturating_add(parted);
                    divided.insert((cluster, &workload.workload), parted);
                }
            }
        }
    }
    for ((cluster, _), replicas) in divided {
        if let Some(share) = shares.get_mut(cluster) {
            share.divided += u64::from(replicas);
        }
    }
    let asks = |layer: &&Layer<'_>| layer.workloads.iter().any(|workload| workload.replicas > 0);
    let asked = layers.iter().any(|layer| asks(&layer));
    // A component without replicas is wanted wherever its step places it.
    let unasked: Vec<&str> = match parted {
        true => layers
            .iter()
            .filter(|layer| !asks(layer))
            .map(|layer| layer.step)
            .collect(),
        false => Vec::new(),
    };
    for share in shares.values_mut() {
        let wanted = share
            .sources
            .iter()
            .any(|source| unasked.contains(&source.step.as_str()));
        share.empty = asked && !wanted && share.replicas.values().all(|part| part.replicas == 0);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::decision::Assignment;

    fn web() -> WorkloadRef {
        WorkloadRef {
            kind: "Deployment".into(),
            namespace: "default".into(),
            name: "web".into(),
        }
    }

    fn division(total: u32, parts: &[(&str, u32, bool)]) -> Vec<WorkloadDecision> {
        vec![WorkloadDecision {
            workload: web(),
            replicas: total,
            clusters: parts
                .iter()
                .map(|(name, replicas, duplicate)| Assignment {
                    name: (*name).into(),
                    replicas: *replicas,
                    duplicate: *duplicate,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }]
    }

    static NO_LABELS: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();

    /// What a step of the present run has placed, of the revision v2.
    fn layer<'a>(
        step: &'a str,
        workloads: &'a [WorkloadDecision],
        clusters: &'a [String],
        waiting: &'a [Waiting],
    ) -> Layer<'a> {
        Layer {
            step,
            reached: true,
            revision: "v2",
            components: &[],
            workloads,
            clusters,
            overrides: &[],
            cluster_labels: &NO_LABELS,
            waiting,
            lost: &[],
        }
    }

    type Parts<'a> = &'a [(&'a str, u32, bool)];

    fn check(layers: &[(&str, bool, Parts<'_>)], expected: Parts<'_>) {
        let divisions: Vec<_> = layers.iter().map(|(_, _, parts)| division(10, parts)).collect();
        let clusters: Vec<Vec<String>> = layers
            .iter()
            .map(|(_, _, parts)| parts.iter().map(|(name, ..)| (*name).to_owned()).collect())
            .collect();
        let layers: Vec<_> = layers
            .iter()
            .zip(divisions.iter().zip(&clusters))
            .map(|((step, reached, _), (workloads, clusters))| Layer {
                reached: *reached,
                ..layer(step, workloads, clusters, &[])
            })
            .collect();
        let got: Vec<_> = shares(&layers)
            .into_iter()
            .map(|(cluster, share)| (cluster, share.replicas[&web()].replicas, share.reached))
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(c, n, r)| ((*c).to_owned(), *n, *r))
            .collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn a_later_step_replaces_never_adds() {
        check(
            &[
                ("canary", true, &[("c1", 1, false)]),
                ("all", true, &[("c1", 3, false), ("c2", 6, false)]),
            ],
            &[("c1", 3, true), ("c2", 6, true)],
        );
    }

    #[test]
    fn a_step_not_reached_keeps_what_the_last_run_placed() {
        check(
            &[
                ("east", true, &[("c1", 7, false)]),
                ("west", false, &[("c4", 2, false)]),
            ],
            &[("c1", 7, true), ("c4", 2, false)],
        );
        // No dip on a cluster that an early and a late step share.
        check(
            &[
                ("canary", true, &[("c1", 1, false)]),
                ("all", false, &[("c1", 3, false), ("c2", 6, false)]),
            ],
            &[("c1", 3, true), ("c2", 6, false)],
        );
    }

    #[test]
    fn a_step_that_gives_nothing_replaces_nothing() {
        check(
            &[
                ("canary", true, &[("c1", 1, false)]),
                ("rest", true, &[("c1", 0, false), ("c2", 1, false)]),
            ],
            &[("c1", 1, true), ("c2", 1, true)],
        );
        check(
            &[
                ("canary", true, &[("c1", 0, false)]),
                ("rest", true, &[("c1", 1, false)]),
            ],
            &[("c1", 1, true)],
        );
        check(
            &[
                ("all", true, &[("c1", 10, true)]),
                ("rest", false, &[("c1", 0, false)]),
            ],
            &[("c1", 10, true)],
        );
    }

    #[test]
    fn rules_of_one_step_add_and_a_duplicate_gives_the_full_count() {
        check(
            &[("a", true, &[("c1", 2, false), ("c1", 3, false)])],
            &[("c1", 5, true)],
        );
        check(
            &[("a", true, &[("c1", 2, false), ("c1", 10, true)])],
            &[("c1", 10, true)],
        );
    }

    #[test]
    fn the_steps_that_place_on_a_cluster_are_named_with_what_each_gave_it() {
        let all = ["c1", "c2"].map(str::to_owned);
        let workloads = division(6, &[("c1", 3, false), ("c2", 3, false)]);
        let waiting = [Waiting {
            revision: Some("v1".to_owned()),
            clusters: all[1..].to_vec(),
        }];
        let east = layer("east", &workloads, &all, &waiting);
        let canary = Layer {
            step: "canary",
            waiting: &[],
            ..east
        };
        let steps = |layers: &[Layer<'_>]| {
            let share = shares(layers).remove("c2").unwrap();
            let steps = share.steps();
            steps
                .map(|(step, revision)| format!("{step} {revision}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(&[canary, east]), ["canary v2", "east v1"]);
        assert_eq!(steps(&[east, canary]), ["east v1", "canary v2"]);
        assert_eq!(steps(&[east]), ["east v1"]);
    }

    #[test]
    fn a_cluster_that_waits_for_its_turn_has_what_the_step_gave_it_last() {
        let all = ["c1", "c2", "c3"].map(str::to_owned);
        let workloads = division(9, &[("c1", 3, false), ("c2", 3, false), ("c3", 3, false)]);
        let waiting = [
            Waiting {
                revision: Some("v1".to_owned()),
                clusters: vec!["c2".to_owned()],
            },
            Waiting {
                revision: None,
                clusters: vec!["c3".to_owned()],
            },
        ];
        let east = layer("east", &workloads, &all, &waiting);
        let one = division(1, &[("c2", 1, false), ("c3", 1, false)]);
        let other = Layer {
            step: "other",
            reached: true,
            revision: "v2",
            workloads: &one,
            clusters: &all[1..],
            waiting: &[],
            ..east
        };
        let shown = |layers: &[Layer<'_>]| {
            let of = |(cluster, share): (String, Share)| {
                let replicas = share.replicas[&web()].replicas;
                let how = if share.reached { "reached" } else { "waits" };
                format!("{cluster} {how} {:?} {} {replicas}", share.revision, share.step)
            };
            shares(layers).into_iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&[east]),
            [
                "c1 reached \"v2\" east 3",
                "c2 waits \"v1\" east 3",
                "c3 waits \"\" east 3"
            ]
        );
        // What another step of the run gives it counts, before it and behind it.
        let earlier = [
            "c1 reached \"v2\" east 3",
            "c2 reached \"v1\" east 3",
            "c3 reached \"v2\" other 1",
        ];
        assert_eq!(shown(&[other, east]), earlier);
        let later = [
            "c1 reached \"v2\" east 3",
            "c2 reached \"v2\" other 1",
            "c3 reached \"v2\" other 1",
        ];
        assert_eq!(shown(&[east, other]), later);
        // Of single components each is of its own revision; what was never given is no source.
        let db = ["db".to_owned()];
        let parted = Layer {
            components: &db,
            ..east
        };
        let sources: Vec<_> = shares(&[parted, other])
            .into_values()
            .map(|share| {
                let source = |s: &Source| format!("{} {} {}", s.step, s.revision, s.reached);
                share.sources.iter().map(source).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            sources,
            [
                vec!["east v2 true"],
                vec!["east v1 false", "other v2 true"],
                vec!["other v2 true"]
            ]
        );
    }
}
