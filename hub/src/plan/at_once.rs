//! How many clusters are under way at the same time at most: by `maxParallel`, and by which steps run side by side.

use roundhouse_api::application::{Mode, StepKind, ValidApplication, ValidStep, WaitFor, WaitStep, order};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most clusters that are under way at the same time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtOnce {
    /// How many.
    pub clusters: usize,
    /// The steps that they are of, in the order of the workflow: more than one run side by side.
    pub steps: Vec<String>,
}

/// The bound over the clusters that each step touches. Of a step that is not in the workflow any more all go at once, when the run
/// has ended.
pub(super) fn at_once(valid: &ValidApplication, touched: &BTreeMap<&str, BTreeSet<&str>>) -> Option<AtOnce> {
    let line = Line::of(valid);
    let weights: Vec<usize> = line
        .steps
        .iter()
        .map(|step| {
            let clusters = touched.get(step.name()).map_or(0, BTreeSet::len);
            clusters.min(step.most())
        })
        .collect();
    // Of two sets that weigh the same, the one that comes first.
    let heaviest = heaviest(&weights, |one, other| line.is_over_before(other, one));
    let of_run = |at: &usize| Some((line.steps.get(*at)?, weights.get(*at)?));
    let clusters: usize = heaviest.iter().filter_map(of_run).map(|(_, weight)| weight).sum();
    let steps = heaviest.iter().filter_map(of_run).map(|(step, _)| step.name());
    let steps: Vec<&str> = steps.collect();
    // One cluster may be touched by several of them.
    let all: BTreeSet<&str> = steps
        .iter()
        .filter_map(|step| touched.get(step))
        .flatten()
        .copied()
        .collect();
    let of_run = AtOnce {
        clusters: clusters.min(all.len()),
        steps: steps.into_iter().map(str::to_owned).collect(),
    };
    let former = touched
        .iter()
        .filter(|(step, _)| !line.steps.iter().any(|known| known.name() == **step))
        .map(|(step, clusters)| AtOnce {
            clusters: clusters.len(),
            steps: vec![(*step).to_owned()],
        });
    let mut most = of_run;
    for one in former {
        if one.clusters > most.clusters {
            most = one;
        }
    }
    (most.clusters > 0).then_some(most)
}

/// The steps of a workflow, those of groups in the place of the groups, and which start after which.
struct Line<'a> {
    steps: Vec<Placed<'a>>,
    /// Of each step of the workflow: those that are over before it starts, at however many removes.
    outer: Vec<BTreeSet<usize>>,
}

/// A step, and where it stands.
struct Placed<'a> {
    step: &'a ValidStep,
    /// Which step of the workflow it is, or is in.
    outer: usize,
    /// Which step of its group it is.
    inner: usize,
    /// The steps of its group that are over before it starts.
    after: BTreeSet<usize>,
}

impl<'a> Line<'a> {
    fn of(valid: &'a ValidApplication) -> Line<'a> {
        let mut steps = Vec::new();
        for (outer, step) in valid.steps.iter().enumerate() {
            match &step.kind {
                StepKind::Group(group) => {
                    let after = all_before(&group.steps, group.mode);
                    let inner = group.steps.iter().zip(after).enumerate();
                    steps.extend(inner.map(|(inner, (step, after))| Placed {
                        step,
                        outer,
                        inner,
                        after,
                    }));
                }
                _ => steps.push(Placed {
                    step,
                    outer,
                    inner: 0,
                    after: BTreeSet::new(),
                }),
            }
        }
        Line {
            steps,
            outer: all_before(&valid.steps, valid.mode),
        }
    }

    /// Whether nothing of the first step is under way any more when the second starts.
    fn is_over_before(&self, first: usize, second: usize) -> bool {
        let (Some(first), Some(second)) = (self.steps.get(first), self.steps.get(second)) else {
            return false;
        };
        let waited_for = |wait: &&Placed<'_>| match &wait.step.kind {
            StepKind::Wait(WaitStep::Fleet { steps, .. }) => {
                steps.is_empty() || steps.iter().any(|step| step == first.name())
            }
            _ => false,
        };
        let mut waits = self.steps.iter().filter(waited_for);
        self.follows(second, first)
            && (first.is_over_when_it_passes()
                || waits.any(|wait| self.follows(wait, first) && self.follows(second, wait)))
    }

    /// Whether a step starts after another one has passed.
    fn follows(&self, step: &Placed<'_>, other: &Placed<'_>) -> bool {
        match step.outer == other.outer {
            true => step.after.contains(&other.inner),
            false => {
                let before = self.outer.get(step.outer);
                before.is_some_and(|before| before.contains(&other.outer))
            }
        }
    }
}

impl<'a> Placed<'a> {
    fn name(&self) -> &'a str {
        &self.step.name
    }

    fn most(&self) -> usize {
        let most = match &self.step.kind {
            StepKind::ClusterObject(object) => object.max_parallel,
            kind => kind.deploy().and_then(|deploy| deploy.max_parallel),
        };
        most.and_then(|most| usize::try_from(most).ok())
            .unwrap_or(usize::MAX)
    }

    /// A step that does not wait, or not for all of its clusters, leaves some under way.
    fn is_over_when_it_passes(&self) -> bool {
        self.step
            .kind
            .deploy()
            .is_none_or(|deploy| deploy.until.is_none() && deploy.wait != WaitFor::None)
    }
}

/// For each step of a list, all that have passed before it starts.
fn all_before(steps: &[ValidStep], mode: Mode) -> Vec<BTreeSet<usize>> {
    let order = order(steps, mode);
    let of = |step: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![step]);
        while let Some(at) = open.pop() {
            let before = order.get(at).into_iter().flatten().copied();
            open.extend(before.filter(|at| seen.insert(*at)));
        }
        seen
    };
    (0..steps.len()).map(of).collect()
}

/// The heaviest set of things of which none is before another one: of a partial order, by the flow that covers it with
/// chains (Dilworth, with weights: <https://en.wikipedia.org/wiki/Dilworth%27s_theorem>).
fn heaviest(weights: &[usize], before: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let all = || (0..weights.len()).filter(|at| weights.get(*at).is_some_and(|weight| *weight > 0));
    let pairs = all().flat_map(|one| all().map(move |other| (one, other)));
    let edges: Vec<(usize, usize)> = pairs
        .filter(|(one, other)| one != other && before(*one, *other))
        .collect();
    let mut flow: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let (mut left, mut right) = (weights.to_vec(), weights.to_vec());
    loop {
        // Whence each was reached: those that chains go on from, and those that they go on to.
        let mut from: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        let mut to: BTreeMap<usize, usize> = BTreeMap::new();
        let mut open: VecDeque<usize> = all()
            .filter(|at| left.get(*at).is_some_and(|rest| *rest > 0))
            .collect();
        from.extend(open.iter().map(|at| (*at, None)));
        let mut end = None;
        while let Some(at) = open.pop_front() {
            for (_, next) in edges.iter().filter(|(one, _)| *one == at) {
                if to.contains_key(next) {
                    continue;
                }
                to.insert(*next, at);
                if right.get(*next).is_some_and(|rest| *rest > 0) {
                    end = end.or(Some(*next));
                }
                let back = flow
                    .iter()
                    .filter(|((_, other), used)| other == next && **used > 0);
                for ((one, _), _) in back {
                    if !from.contains_key(one) {
                        from.insert(*one, Some(*next));
                        open.push_back(*one);
                    }
                }
            }
        }
        let Some(end) = end else {
            // What is reached on the one side only is in no cover.
            return all()
                .filter(|at| from.contains_key(at) && !to.contains_key(at))
                .collect();
        };
        // Along the way back to where it began.
        let (mut way, mut at) = (Vec::new(), Some(end));
        let mut amount = right.get(end).copied().unwrap_or_default();
        while let Some(next) = at {
            let Some(one) = to.get(&next).copied() else { break };
            at = from.get(&one).copied().flatten();
            let room = match at {
                Some(back) => flow.get(&(one, back)).copied().unwrap_or_default(),
                None => left.get(one).copied().unwrap_or_default(),
            };
            amount = amount.min(room);
            way.push((one, next, at));
        }
        for (one, next, back) in way {
            *flow.entry((one, next)).or_default() += amount;
            match back {
                Some(back) => *flow.entry((one, back)).or_default() -= amount,
                None => left.get_mut(one).into_iter().for_each(|rest| *rest -= amount),
            }
        }
        right.get_mut(end).into_iter().for_each(|rest| *rest -= amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use roundhouse_api::application::validate;
    use serde_json::{Value, json};

    /// Steps as `name: clusters`, under properties that the workflow has.
    fn bound(workflow: &Value, touched: &[(&str, &str)]) -> String {
        let spec = json!({"components": [{"name": "a", "type": "worker", "properties": {"image": "x"}}],
            "workflow": workflow});
        let valid = validate(&spec).unwrap();
        let touched = touched
            .iter()
            .map(|(step, clusters)| (*step, clusters.split(' ').collect()))
            .collect();
        let most = at_once(&valid, &touched).unwrap_or_default();
        format!("{} {}", most.clusters, most.steps.join(" "))
    }

    fn deploy(name: &str, more: &Value) -> Value {
        let mut step = json!({"name": name, "type": "deploy", "properties": {"placement": [{}]}});
        for (key, value) in more.as_object().unwrap() {
            match key.as_str() {
                "dependsOn" => step[key] = value.clone(),
                _ => step["properties"][key] = value.clone(),
            }
        }
        step
    }

    #[test]
    fn so_many_clusters_are_under_way_at_once() {
        let two = json!({"maxParallel": 2});
        let four = [("a", "1 2 3 4"), ("b", "5 6 7 8")];
        let steps = |one: &Value, other: &Value| json!([deploy("a", one), deploy("b", other)]);
        for (workflow, touched, expected) in [
            (json!({"steps": steps(&json!({}), &json!({}))}), &four[..], "4 a"),
            (
                json!({"steps": steps(&json!({"maxParallel": 1}), &json!({"maxParallel": 1}))}),
                &four,
                "1 a",
            ),
            (
                json!({"steps": steps(&two, &json!({"maxParallel": 3}))}),
                &four,
                "3 b",
            ),
            (
                json!({"mode": {"steps": "DAG"}, "steps": steps(&two, &two)}),
                &four,
                "4 a b",
            ),
            (
                json!({"mode": {"steps": "DAG"}, "steps": steps(&two, &json!({"maxParallel": 2, "dependsOn": ["a"]}))}),
                &four,
                "2 a",
            ),
            // Side by side, on the same clusters.
            (
                json!({"mode": {"steps": "DAG"}, "steps": steps(&two, &two)}),
                &[("a", "1 2"), ("b", "1 2")],
                "2 a b",
            ),
            (
                json!({"steps": [{"name": "g", "type": "step-group", "subSteps": steps(&two, &two)}, deploy("c", &json!({}))]}),
                &[("a", "1 2 3"), ("b", "4 5 6"), ("c", "7 8 9")],
                "4 a b",
            ),
            (
                json!({"steps": [{"name": "g", "type": "step-group", "mode": "StepByStep", "subSteps": steps(&two, &two)}]}),
                &four,
                "2 a",
            ),
            // A step that does not wait is under way beside the next, unless that is waited for.
            (
                json!({"steps": steps(&json!({"wait": "none"}), &two)}),
                &four,
                "6 a b",
            ),
            (
                json!({"steps": [deploy("a", &json!({"wait": "none"})),
                    {"name": "w", "type": "wait", "properties": {"until": {"ready": "100%"}}}, deploy("b", &two)]}),
                &four,
                "4 a",
            ),
            (
                json!({"steps": steps(&two, &two)}),
                &[("former", "1 2 3")],
                "3 former",
            ),
            (json!({"steps": steps(&two, &two)}), &[], "0 "),
        ] {
            assert_eq!(bound(&workflow, touched), expected, "{workflow}");
        }
    }

    proptest! {
        /// As the best of all sets.
        #[test]
        fn the_heaviest_set_is_found(
            weights in prop::collection::vec(0_usize..5, 1..8),
            arrows in prop::collection::vec((0_usize..8, 0_usize..8), 0..14),
        ) {
            let count = weights.len();
            let mut before = vec![vec![false; count]; count];
            for (one, other) in arrows {
                if one < other && other < count {
                    before[one][other] = true;
                }
            }
            for middle in 0..count {
                for one in 0..count {
                    for other in 0..count {
                        before[one][other] |= before[one][middle] && before[middle][other];
                    }
                }
            }
            let weigh = |set: &[usize]| set.iter().map(|at| weights[*at]).sum::<usize>();
            let is_free = |set: &[usize]| set.iter().all(|one| set.iter().all(|other| !before[*one][*other]));
            let sets = (0..1_usize << count).map(|bits| (0..count).filter(|at| bits >> at & 1 == 1).collect::<Vec<_>>());
            let best = sets.filter(|set| is_free(set)).map(|set| weigh(&set)).max().unwrap();
            let found = heaviest(&weights, |one, other| before[one][other]);
            prop_assert!(is_free(&found));
            prop_assert_eq!(weigh(&found), best);
        }
    }
}
