//! Steps that place together.

use super::{Request, Workload};
use roundhouse_api::decision::WorkloadRef;
use std::collections::BTreeSet;

/// Asks once for all steps that dispatch the same component, with the workloads of that component, and once for all that
/// dispatch every component, with all workloads: those share their replicas, others do not.
///
/// `only` is the one component that each step dispatches, `None` for all of them; `question` answers with one value per
/// step that it is asked about. The answers are in the order of the steps.
pub fn by_component<T>(
    request: &Request<'_>,
    only: &[Option<&str>],
    workloads_of: impl Fn(&str) -> BTreeSet<WorkloadRef>,
    question: impl Fn(&Request<'_>) -> Vec<T>,
) -> Vec<T> {
    if only.iter().all(Option::is_none) {
        return question(request);
    }
    let groups: BTreeSet<Option<&str>> = only.iter().copied().collect();
    let mut answers: Vec<Option<T>> = request.steps.iter().map(|_| None).collect();
    for group in groups {
        let of_group = request.steps.iter().copied().enumerate();
        let of_group = of_group.filter(|(index, _)| only.get(*index) == Some(&group));
        let (places, steps): (Vec<usize>, Vec<_>) = of_group.unzip();
        let workloads: Vec<Workload> = match group {
            None => request.workloads.to_vec(),
            Some(component) => {
                let own = workloads_of(component);
                let all = request.workloads.iter();
                all.filter(|workload| own.contains(&workload.key))
                    .cloned()
                    .collect()
            }
        };
        let of_group = question(&Request {
            steps: &steps,
            workloads: &workloads,
            ..*request
        });
        for (index, answer) in places.into_iter().zip(of_group) {
            if let Some(place) = answers.get_mut(index) {
                *place = Some(answer);
            }
        }
    }
    answers.into_iter().flatten().collect()
}
