//! Ways to a replica of what is divided: a larger claim, a larger total, a wider bound.

use super::{Candidate, Range, Subject};
use crate::explain::{Change, Form};
use roundhouse_api::{
    names::is_bookkeeping,
    placement::{ReplicaShare, Rule, WeightBy},
    quantity,
};

/// Weights beyond this say nothing any more.
const MAX_WEIGHT: u32 = 1_000_000;
/// As many replicas more are tried.
const MAX_MORE: u32 = 1_000_000;
/// Binary units of quantities.
const GI: u64 = 1 << 30;
const MI: u64 = 1 << 20;
/// Resources that are counted in bytes.
const BYTES: [&str; 2] = ["memory", "ephemeral-storage"];
/// 100 %, in percent.
const WHOLE: u32 = 100;

impl Subject<'_> {
    pub(super) fn weights(&self) -> Vec<Candidate> {
        let of_rule = |(rule, spec): ((usize, usize), &Rule)| match &spec.weight_by {
            // A topology policy has no weights.
            _ if self.setting.form(rule) == Form::Topology => None,
            None => {
                let weight = spec.weights.get(&self.facts.name).copied().unwrap_or(1);
                Some(Candidate::least(
                    weight.saturating_add(1),
                    MAX_WEIGHT,
                    move |weight| Change::Weight { rule, weight },
                ))
            }
            Some(WeightBy::Label(key)) if !is_bookkeeping(key) => {
                let weight = self
                    .facts
                    .labels
                    .get(key)
                    .and_then(|value| value.parse::<u32>().ok());
                let key = key.clone();
                Some(Candidate::least(
                    weight.unwrap_or(0).saturating_add(1),
                    MAX_WEIGHT,
                    move |weight| Change::SetLabel {
                        key: key.clone(),
                        value: weight.to_string(),
                    },
                ))
            }
            Some(WeightBy::Label(_)) => None,
            Some(WeightBy::Allocatable(resource)) => Some(self.allocatable(resource)),
        };
        self.own_rules().filter_map(of_rule).collect()
    }

    /// More of a resource, in steps that people order nodes in.
    fn allocatable(&self, resource: &str) -> Candidate {
        let reported = self.facts.allocatable.get(resource);
        let read = reported.and_then(|text| match resource {
            "cpu" => quantity::thousandths(text),
            _ => quantity::units(text),
        });
        let now = read.unwrap_or(0);
        let (unit, suffix) = match resource {
            "cpu" => (1000, ""),
            _ if now >= GI || now == 0 && BYTES.contains(&resource) => (GI, "Gi"),
            _ if now >= MI => (MI, "Mi"),
            _ => (1, ""),
        };
        let from = u32::try_from(now / unit).unwrap_or(u32::MAX).saturating_add(1);
        let resource = resource.to_owned();
        Candidate::least(from, from.saturating_add(MAX_MORE), move |number| {
            Change::Allocatable {
                resource: resource.clone(),
                quantity: format!("{number}{suffix}"),
            }
        })
    }

    /// A larger claim, a larger total, a wider bound.
    pub(super) fn more(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        let claimed: u32 = self
            .setting
            .steps
            .iter()
            .flat_map(|step| &step.spec.placement)
            .filter_map(|rule| match rule.replicas {
                Some(ReplicaShare::Percent(percent)) => Some(percent.milli()),
                _ => None,
            })
            .sum();
        let asked = self
            .setting
            .workloads
            .iter()
            .map(|w| w.replicas)
            .max()
            .unwrap_or(0);
        for (rule, spec) in self.own_rules() {
            match spec.replicas {
                Some(ReplicaShare::Percent(percent)) => {
                    let now = percent.milli();
                    let to = now.saturating_add((WHOLE * 1000).saturating_sub(claimed));
                    // In whole percent if that will do, else in thousandths.
                    let share = move |milli| Change::Share {
                        rule,
                        share: share_of(milli),
                    };
                    all.push(Candidate::Least(vec![
                        Range::new(now / 1000 + 1, to / 1000, move |percent| {
                            share(percent.saturating_mul(1000))
                        }),
                        Range::new(now.saturating_add(1), to, share),
                    ]));
                }
                Some(ReplicaShare::Count(count)) => {
                    all.push(Candidate::least(count.saturating_add(1), asked, move |count| {
                        Change::Share {
                            rule,
                            share: ReplicaShare::Count(count),
                        }
                    }));
                }
                None => {}
            }
            let bounds = spec.per_cluster.unwrap_or_default();
            if spec.replicas.is_some() && bounds.min.unwrap_or(0) == 0 && bounds.max != Some(0) {
                all.push(Candidate::one(Change::Min { rule, min: 1 }));
            }
            if let Some(max) = bounds.max {
                let to = max.saturating_add(asked);
                all.push(Candidate::least(max.saturating_add(1), to, move |max| {
                    Change::Max { rule, max }
                }));
            }
        }
        all.extend(self.weights());
        if let Some(capacity) = self.facts.capacity {
            let to = capacity.saturating_add(MAX_MORE);
            all.push(Candidate::least(capacity.saturating_add(1), to, Change::Capacity));
        }
        all.extend(self.rebalance());
        for workload in self.setting.workloads_of(self.step) {
            let (key, now) = (workload.key.clone(), workload.replicas);
            all.push(Candidate::least(
                now.saturating_add(1),
                now.saturating_add(MAX_MORE),
                move |replicas| Change::Replicas {
                    workload: key.clone(),
                    replicas,
                },
            ));
        }
        all
    }
}

/// A share of thousandths of a percent; above 100 % it stays there.
fn share_of(milli: u32) -> ReplicaShare {
    let milli = milli.min(WHOLE * 1000);
    match format!("{}.{:03}%", milli / 1000, milli % 1000).parse() {
        Ok(percent) => ReplicaShare::Percent(percent),
        // Not reached: every number up to 100 with three decimals is a percentage.
        Err(_) => ReplicaShare::Count(milli),
    }
}
