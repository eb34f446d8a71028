//! Steps that place together.

use super::{Request, Standing, StepDecision, Workload, decide::place_all, standing};
use crate::placement::PlacingStep;
use roundhouse_api::decision::WorkloadRef;
use std::collections::BTreeSet;

/// Steps that share their replicas, by the order of the first of each: those that dispatch the same component, with the
/// workloads of that component, and those that dispatch every component, with all workloads.
struct Group<'a> {
    /// Their places among all placing steps.
    places: Vec<usize>,
    steps: Vec<PlacingStep<'a>>,
    workloads: Vec<Workload>,
}

impl<'a> Group<'a> {
    fn request<'r>(&'r self, of: &Request<'r>) -> Request<'r>
    where
        'a: 'r,
    {
        Request {
            steps: &self.steps,
            workloads: &self.workloads,
            ..*of
        }
    }
}

/// [`place`](super::place) for steps of which some dispatch a single component: `only` names it, `None` stands for all of
/// them. They divide their workloads apart from others, and share the room of the clusters with them.
pub fn place_by_component(
    request: &Request<'_>,
    only: &[Option<&str>],
    workloads_of: impl Fn(&str) -> BTreeSet<WorkloadRef>,
) -> Vec<StepDecision> {
    let groups = groups(request, only, workloads_of);
    let requests: Vec<(Request<'_>, &[usize])> = groups
        .iter()
        .map(|group| (group.request(request), group.places.as_slice()))
        .collect();
    in_order(&groups, place_all(&requests))
}

/// [`standing`] for steps of which some dispatch a single component; `None` if the cluster is not in the inventory.
pub fn standing_by_component(
    request: &Request<'_>,
    only: &[Option<&str>],
    workloads_of: impl Fn(&str) -> BTreeSet<WorkloadRef>,
    cluster: &str,
) -> Option<Vec<Standing>> {
    let groups = groups(request, only, workloads_of);
    let answers = groups
        .iter()
        .map(|group| standing(&group.request(request), cluster));
    Some(in_order(&groups, answers.collect::<Option<Vec<_>>>()?))
}

fn groups<'a>(
    request: &Request<'a>,
    only: &[Option<&str>],
    workloads_of: impl Fn(&str) -> BTreeSet<WorkloadRef>,
) -> Vec<Group<'a>> {
    let only = |place: usize| only.get(place).copied().flatten();
    let mut groups: Vec<(Option<&str>, Group<'a>)> = Vec::new();
    for (place, step) in request.steps.iter().enumerate() {
        let of = only(place);
        let at = groups.iter().position(|(known, _)| *known == of);
        let at = at.unwrap_or_else(|| {
            let all = request.workloads.iter();
            let workloads = match of {
                None => all.cloned().collect(),
                Some(component) => {
                    let own = workloads_of(component);
                    all.filter(|workload| own.contains(&workload.key))
                        .cloned()
                        .collect()
                }
            };
            let group = Group {
                places: Vec::new(),
                steps: Vec::new(),
                workloads,
            };
            groups.push((of, group));
            groups.len() - 1
        });
        if let Some((_, group)) = groups.get_mut(at) {
            group.places.push(place);
            group.steps.push(*step);
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The answers about the steps of all groups, in the order of the steps.
fn in_order<T>(groups: &[Group<'_>], answers: Vec<Vec<T>>) -> Vec<T> {
    let places = groups.iter().flat_map(|group| group.places.iter().copied());
    let mut all: Vec<(usize, T)> = places.zip(answers.into_iter().flatten()).collect();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, answer)| answer).collect()
}
