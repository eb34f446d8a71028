//! Which steps of a list each step starts after; pure.

use super::{
    Condition, InputSource, Mode, OutputSource, StepExpression, StepKind, Until, ValidStep, WaitStep,
};
use std::collections::{BTreeMap, BTreeSet};

/// For each step, the steps of the list that have to be over before it starts: those it names under `dependsOn`, those
/// whose outputs it takes or names, those whose objects it takes away, those whose clusters it waits for (of a wait that names
/// none, all that place and do not wait for it), and, one after the other, all before it unless it has a `dependsOn`.
pub fn order(steps: &[ValidStep], mode: Mode) -> Vec<Vec<usize>> {
    let (mut named, mut giving) = (BTreeMap::new(), BTreeMap::new());
    for (index, step) in steps.iter().enumerate() {
        for step in with_inner(step) {
            named.insert(step.name.as_str(), index);
            giving.extend(step.outputs.iter().map(|output| (output.name.as_str(), index)));
        }
    }
    let after = |(index, step): (usize, &ValidStep)| {
        let mut after: BTreeSet<usize> = BTreeSet::new();
        after.extend(step.depends_on.iter().filter_map(|name| named.get(name.as_str())));
        for own in with_inner(step) {
            // What steps of a group take from one another is no matter of the group.
            let inner = |at: &usize| *at == index && !std::ptr::eq(own, step);
            let taken = own.inputs.iter().filter_map(|input| match &input.source {
                InputSource::Output(name) => giving.get(name.as_str()),
                InputSource::Expression(_) => None,
            });
            let told = own
                .expressions()
                .flat_map(StepExpression::references)
                .filter_map(|reference| named.get(reference.step.as_str()));
            let awaited = match &own.kind {
                StepKind::Wait(WaitStep::Fleet { steps, .. }) => steps.as_slice(),
                StepKind::ClusterObject(object) => object.takes_of.as_slice(),
                _ => &[],
            };
            let awaited = awaited.iter().filter_map(|name| named.get(name.as_str()));
            after.extend(taken.chain(told).chain(awaited).copied().filter(|at| !inner(at)));
        }
        if mode == Mode::StepByStep && step.depends_on.is_empty() {
            after.extend(0..index);
        }
        after.into_iter().collect()
    };
    let mut order: Vec<Vec<usize>> = steps.iter().enumerate().map(after).collect();
    for (wait, _) in steps.iter().enumerate().filter(|(_, step)| waits_for_all(step)) {
        let placing = |at: &usize| {
            let mut own = steps.get(*at).into_iter().flat_map(with_inner);
            own.any(|step| step.kind.deploy().is_some())
        };
        let before: Vec<usize> = (0..steps.len())
            .filter(|at| *at != wait && placing(at) && !comes_after(&order, *at, wait))
            .collect();
        if let Some(after) = order.get_mut(wait) {
            after.extend(before);
            after.sort_unstable();
            after.dedup();
        }
    }
    order
}

/// A wait that names no steps waits for all that place, but for those that wait for it.
fn waits_for_all(step: &ValidStep) -> bool {
    matches!(&step.kind, StepKind::Wait(WaitStep::Fleet { steps, .. }) if steps.is_empty())
}

/// Whether a step starts after another one, at however many removes.
fn comes_after(order: &[Vec<usize>], step: usize, other: usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![step];
    while let Some(at) = open.pop() {
        if at == other {
            return true;
        }
        if seen.insert(at) {
            open.extend(order.get(at).into_iter().flatten());
        }
    }
    false
}

/// A step and the steps in it.
fn with_inner(step: &ValidStep) -> impl Iterator<Item = &ValidStep> {
    let inner = match &step.kind {
        StepKind::Group(group) => group.steps.as_slice(),
        _ => &[],
    };
    std::iter::once(step).chain(inner)
}

/// Steps that wait for one another, if there are any: each waits for the next, the last for the first.
pub fn cycle(order: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut done = vec![false; order.len()];
    for start in 0..order.len() {
        // The way to the present step, each with the place of what it looks at next.
        let mut way: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((step, next)) = way.last_mut() {
            let (here, at) = (*step, *next);
            *next += 1;
            if done.get(here).copied().unwrap_or(true) {
                way.pop();
                continue;
            }
            match order.get(here).and_then(|after| after.get(at)) {
                None => {
                    if let Some(done) = done.get_mut(here) {
                        *done = true;
                    }
                    way.pop();
                }
                Some(after) => {
                    if let Some(first) = way.iter().position(|(step, _)| step == after) {
                        return Some(way.iter().skip(first).map(|(step, _)| *step).collect());
                    }
                    way.push((*after, 0));
                }
            }
        }
    }
    None
}

impl ValidStep {
    /// The expressions of the step itself, not of steps in it.
    pub fn expressions(&self) -> impl Iterator<Item = &StepExpression> {
        let condition = self.condition.iter().filter_map(|condition| match condition {
            Condition::Always => None,
            Condition::When(expression) => Some(expression),
        });
        let inputs = self.inputs.iter().filter_map(|input| match &input.source {
            InputSource::Expression(expression) => Some(expression),
            InputSource::Output(_) => None,
        });
        let outputs = self.outputs.iter().filter_map(|output| match &output.value {
            OutputSource::Expression(expression) => Some(expression),
            OutputSource::Feedback { .. } => None,
        });
        fn of_fleet(until: &Until) -> Option<&StepExpression> {
            match until {
                Until::Holds(expression) => Some(expression),
                Until::Ready(_) => None,
            }
        }
        let until = match &self.kind {
            StepKind::Wait(WaitStep::Fleet { until, .. }) => of_fleet(until),
            StepKind::Wait(WaitStep::Object { until, .. }) => Some(until),
            StepKind::Deploy(deploy) => deploy.until.as_ref().and_then(of_fleet),
            _ => None,
        };
        condition.chain(inputs).chain(outputs).chain(until)
    }
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn cycles_are_found() {
        let of = |order: &[&[usize]]| cycle(&order.iter().map(|after| after.to_vec()).collect::<Vec<_>>());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[&[], &[0], &[0, 1]]), None);
        assert_eq!(of(&[&[0]]), Some(vec![0]));
        assert_eq!(of(&[&[2], &[0], &[1]]), Some(vec![0, 2, 1]));
        assert_eq!(of(&[&[], &[0, 3], &[0], &[2, 1]]), Some(vec![1, 3]));
        // As many paths as there are subsets: each step is looked at once.
        let wide: Vec<Vec<usize>> = (0..200).map(|n| (0..n).collect()).collect();
        assert_eq!(cycle(&wide), None);
    }
}
