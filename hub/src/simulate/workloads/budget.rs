//! PodDisruptionBudget, counted as its controller does (kubernetes `pkg/controller/disruption/disruption.go`).

use super::{Around, Group, Memory, Next, Wanted, Workload, rolling::resolve};
use jiff::Timestamp;
use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus},
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};
use kube::core::{Selector, SelectorExt};

impl Workload for PodDisruptionBudget {
    const HAS_PODS: bool = false;
    type Status = PodDisruptionBudgetStatus;

    fn status(&self) -> Option<&PodDisruptionBudgetStatus> {
        self.status.as_ref()
    }

    fn with_status(mut self, status: PodDisruptionBudgetStatus) -> Self {
        self.status = Some(status);
        self
    }

    fn next(&self, _: Option<Memory>, around: &Around<'_>) -> Next<PodDisruptionBudgetStatus> {
        let before = self.status.clone().unwrap_or_default();
        let status = match counted(self, around) {
            Ok(counts) => PodDisruptionBudgetStatus {
                observed_generation: self.metadata.generation,
                current_healthy: Some(counts.healthy),
                desired_healthy: Some(counts.desired),
                expected_pods: Some(counts.expected),
                disruptions_allowed: Some(counts.allowed()),
                conditions: Some(match counts.allowed() {
                    0 => said(self, "False", "InsufficientPods", String::new(), around.now),
                    _ => said(self, "True", "SufficientPods", String::new(), around.now),
                }),
                ..before
            },
            // What generation that is stays unsaid, as nothing of it was counted.
            Err(why) => PodDisruptionBudgetStatus {
                disruptions_allowed: Some(0),
                conditions: Some(said(self, "False", "SyncFailed", why, around.now)),
                ..before
            },
        };
        Next {
            status,
            memory: Memory::default(),
            wake_at: None,
        }
    }
}

struct Counts {
    healthy: i32,
    desired: i32,
    expected: i32,
}

impl Counts {
    fn allowed(&self) -> i32 {
        match self.expected {
            0 => 0,
            _ => self.healthy.saturating_sub(self.desired).max(0),
        }
    }
}

fn counted(budget: &PodDisruptionBudget, around: &Around<'_>) -> Result<Counts, String> {
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    let spec = budget.spec.clone().unwrap_or_default();
    let groups = match spec.selector.clone() {
        // Without a selector it is about no pod, with an empty one about all of its namespace.
        None => Vec::new(),
        Some(selector) => {
            let selector = Selector::try_from(selector).map_err(|error| error.to_string())?;
            around.pods.of(namespace, |labels| selector.matches(labels))
        }
    };
    let sum = |of: fn(&Group) -> i32| groups.iter().map(of).fold(0, i32::saturating_add);
    let (expected, desired) = wanted(&spec, &groups, sum(|group| group.total))?;
    Ok(Counts {
        healthy: sum(|group| group.ready),
        desired,
        expected,
    })
}

/// How many pods are expected, and how many of them are to be healthy (`getExpectedPodCount`).
fn wanted(spec: &PodDisruptionBudgetSpec, groups: &[Group], total: i32) -> Result<(i32, i32), String> {
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => {
            let expected = scale(groups)?;
            let unavailable = resolve(most, expected, true);
            Ok((expected, expected.saturating_sub(unavailable).max(0)))
        }
        (None, Some(IntOrString::Int(least))) => Ok((total, (*least).max(0))),
        (None, Some(least)) => {
            let expected = scale(groups)?;
            Ok((expected, resolve(least, expected, true)))
        }
        (None, None) => Ok((0, 0)),
    }
}

/// What the controllers of the pods are to have; pods without one are not looked at (`getExpectedScale`).
fn scale(groups: &[Group]) -> Result<i32, String> {
    let mut scale = 0_i32;
    for group in groups {
        match group.wanted {
            Wanted::Scale(wanted) => scale = scale.saturating_add(wanted),
            Wanted::Alone => {}
            Wanted::NoScale(_) if group.total == 0 => {}
            Wanted::NoScale(resource) => {
                return Err(format!("{resource} does not implement the scale subresource"));
            }
        }
    }
    Ok(scale)
}

/// The conditions with `DisruptionAllowed`, whose time is that of its last change.
fn said(
    budget: &PodDisruptionBudget,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> Vec<Condition> {
    let before = budget
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone());
    let mut conditions = before.unwrap_or_default();
    let place = conditions.iter().position(|c| c.type_ == "DisruptionAllowed");
    let former = place
        .map(|place| conditions.remove(place))
        .filter(|c| c.status == status);
    conditions.push(Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: former.map_or(Time(now), |c| c.last_transition_time),
        observed_generation: budget.metadata.generation,
    });
    conditions
}
