//! The rolling update of a Deployment, as its controller does it (kubernetes `pkg/controller/deployment/rolling.go`).

use super::{
    memory::{Memory, Replica},
    model::{Model, Template},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::apps::v1::DeploymentStrategy, apimachinery::pkg::util::intstr::IntOrString};

/// What a rolling update keeps to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rolling {
    pub(super) desired: i32,
    pub(super) surge: i32,
    pub(super) unavailable: i32,
    pub(super) recreate: bool,
    pub(super) min_ready: SignedDuration,
}

impl Rolling {
    pub(super) fn of(
        strategy: Option<&DeploymentStrategy>,
        desired: i32,
        min_ready: SignedDuration,
    ) -> Rolling {
        let recreate = strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate");
        let bounds = strategy.and_then(|s| s.rolling_update.as_ref());
        let default = IntOrString::String("25%".to_owned());
        let surge = bounds.and_then(|b| b.max_surge.as_ref()).unwrap_or(&default);
        let unavailable = bounds
            .and_then(|b| b.max_unavailable.as_ref())
            .unwrap_or(&default);
        let surge = resolve(surge, desired, true);
        let mut unavailable = resolve(unavailable, desired, false);
        if recreate {
            return Rolling {
                desired,
                surge: 0,
                unavailable: desired,
                recreate,
                min_ready,
            };
        }
        // Both zero would never move (kubernetes `ResolveFenceposts`).
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Rolling {
            desired,
            surge,
            unavailable: unavailable.min(desired),
            recreate,
            min_ready,
        }
    }

    pub(super) fn min_available(&self) -> i32 {
        self.desired - self.unavailable
    }

    /// Moves as far as the bounds allow at `now`.
    pub(super) fn advance(
        &self,
        memory: &mut Memory,
        object: &str,
        template: &Template,
        model: &Model,
        now: Timestamp,
    ) {
        let is_new = |replica: &Replica| replica.template == template.hash;
        loop {
            let before = memory.replicas.len();
            let started = memory.next_ordinal;
            if self.recreate {
                memory.replicas.retain(is_new);
            }
            let surplus = memory.count(is_new) - self.desired;
            remove(memory, surplus, |r| is_new(r) && !r.is_ready(now));
            remove(memory, memory.count(is_new) - self.desired, is_new);
            let room = self.desired.saturating_add(self.surge) - memory.count(|_| true);
            for _ in 0..room.min(self.desired - memory.count(is_new)) {
                memory.start(object, template, model, now);
            }
            self.remove_old(memory, &is_new, now);
            if memory.replicas.len() == before && memory.next_ordinal == started {
                return;
            }
        }
    }

    /// Removes replicas of other templates: those that are not ready first, then as many as availability allows.
    fn remove_old(&self, memory: &mut Memory, is_new: &impl Fn(&Replica) -> bool, now: Timestamp) {
        let available = |r: &Replica| r.is_available(self.min_ready, now);
        let new_unavailable = memory.count(|r| is_new(r) && !available(r));
        let most = memory.count(|_| true) - self.min_available() - new_unavailable;
        let unhealthy = memory.count(|r| !is_new(r) && !available(r));
        remove(memory, most.min(unhealthy), |r| !is_new(r) && !available(r));
        let spare = memory.count(available) - self.min_available();
        remove(memory, spare, |r| !is_new(r));
    }
}

/// Removes up to `number` replicas that match, youngest first.
pub(super) fn remove(memory: &mut Memory, number: i32, matches: impl Fn(&Replica) -> bool) {
    if number <= 0 {
        return;
    }
    let mut left = number;
    memory.replicas.reverse();
    memory.replicas.retain(|replica| {
        let goes = left > 0 && matches(replica);
        left -= i32::from(goes);
        !goes
    });
    memory.replicas.reverse();
}

/// A count or a percentage of `total`.
pub(super) fn resolve(bound: &IntOrString, total: i32, round_up: bool) -> i32 {
    match bound {
        IntOrString::Int(count) => (*count).max(0),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|n| n.parse::<i64>().ok());
            let product = percent.unwrap_or(0).clamp(0, 100_000) * i64::from(total);
            let resolved = if round_up {
                (product + 99) / 100
            } else {
                product / 100
            };
            i32::try_from(resolved).unwrap_or(i32::MAX)
        }
    }
}
