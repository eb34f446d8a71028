//! What is asked of a cluster, in the order in which it is asked, and the one thing that decides.
//!
//! Architecture invariant: the reason is the placement's own ([`standing`](crate::placement::standing), and the rows of
//! the decision); here it is only found among the conditions.

mod asked;
mod required;

pub(super) use required::{Required, required, tolerates};

use super::Setting;
use crate::placement::{NotChosen, Standing, StepDecision};
use asked::Asked;
use roundhouse_api::decision::WorkloadRef;
use std::collections::BTreeMap;

/// How a condition turned out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It holds.
    Holds,
    /// It does not.
    Fails,
    /// What came before has decided.
    NotAsked,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// How it turned out.
    pub mark: Mark,
    /// Whether it is the one reason.
    pub decisive: bool,
    /// What it is about: `clusters`, `clusterSelector`, `accepted`, `joined`, `taint`, `reachable`, `maxClusters`, `spread`,
    /// `capacity`, `share`, `overrides`.
    pub about: &'static str,
    /// The rule that asks; absent for what the step asks.
    pub rule: Option<String>,
    /// What is asked for.
    pub asks: String,
    /// What there is.
    pub found: String,
}

/// Why a cluster has what it has of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It has replicas.
    Placed,
    /// There is nothing to divide, and it gets the objects.
    Member,
    /// The step does not choose it.
    NotChosen(NotChosen),
    /// The step chooses it, and its share is 0, for this reason: a bound of the decision's rows (`Capacity`, `Max`,
    /// `ZeroWeight`, `NoAdditional`), `NothingAsked` (the workload asks for no replica), `DividedBefore` (what was divided
    /// when it was not there stands: a Job, or a step that the run has passed), `RuleGetsNothing` (the rule's total is 0), or `Arithmetic` (every seat went to a larger claim).
    ZeroShare(&'static str),
}

impl Reason {
    /// A word for programs.
    pub fn code(self) -> &'static str {
        match self {
            Reason::Placed => "Placed",
            Reason::Member => "Member",
            Reason::NotChosen(reason) => reason.as_str(),
            Reason::ZeroShare(_) => "ZeroShare",
        }
    }

    /// Whether the cluster gets something.
    pub fn is_placed(self) -> bool {
        matches!(self, Reason::Placed | Reason::Member)
    }
}

/// What one rule gives the cluster of one workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The workload.
    pub workload: WorkloadRef,
    /// The rule.
    pub rule: String,
    /// Replicas.
    pub replicas: u32,
    /// Whether the rule gives every cluster the full count.
    pub duplicate: bool,
    /// What the rule divides.
    pub total: u32,
    /// Exact share as a reduced fraction; absent for duplicates.
    pub quota: Option<String>,
    /// The bound that held.
    pub bound: Option<String>,
    /// What settled a tie.
    pub tie: Option<String>,
}

/// How a cluster fares in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAnswer {
    /// Step name.
    pub step: String,
    /// The reason.
    pub reason: Reason,
    /// Every condition, in order.
    pub conditions: Vec<Condition>,
    /// What it gets, by workload and rule.
    pub shares: Vec<Share>,
}

impl StepAnswer {
    /// Replicas that it runs of the step, over all workloads: of each what rules divide, or the full count of a duplicate
    /// rule, whichever is more, as dispatch gives it.
    pub fn replicas(&self) -> u64 {
        let mut of_workload: BTreeMap<&WorkloadRef, (u64, u64)> = BTreeMap::new();
        for share in &self.shares {
            let (divided, full) = of_workload.entry(&share.workload).or_default();
            match share.duplicate {
                true => *full = (*full).max(share.replicas.into()),
                false => *divided += u64::from(share.replicas),
            }
        }
        of_workload
            .into_values()
            .map(|(divided, full)| divided.max(full))
            .sum()
    }
}

/// How a cluster fares in every step; `None` if the fleet has no such cluster. `decisions` is what placement answered.
pub fn conditions(setting: &Setting, decisions: &[StepDecision], cluster: &str) -> Option<Vec<StepAnswer>> {
    let facts = setting.cluster(cluster)?;
    let standings = setting.standing(cluster)?;
    let steps = setting.steps.iter().zip(standings).zip(decisions);
    let answers = steps.map(|((step, standing), decision)| {
        let asked = Asked {
            now: setting.now,
            facts,
            spec: &step.spec,
            standing,
            shares: shares(decision, cluster),
        };
        let reason = asked.reason(decision);
        StepAnswer {
            step: step.name.clone(),
            reason,
            conditions: asked.conditions(reason),
            shares: asked.shares,
        }
    });
    Some(answers.collect())
}

/// How a cluster fares by a decision alone, where nothing can be asked: without conditions.
pub fn as_decided(decision: &StepDecision, cluster: &str) -> StepAnswer {
    let shares = shares(decision, cluster);
    let is_member = decision.clusters.iter().any(|name| name == cluster);
    StepAnswer {
        step: decision.step.clone(),
        reason: match (shares.iter().any(|share| share.replicas > 0), is_member) {
            (true, _) => Reason::Placed,
            (false, true) if decision.workloads.is_empty() => Reason::Member,
            (false, true) => Reason::ZeroShare("Arithmetic"),
            (false, false) => Reason::NotChosen(NotChosen::NotMatched),
        },
        conditions: Vec::new(),
        shares,
    }
}

/// Why the cluster has what it has of one step: as [`conditions`] says, without the conditions.
pub(super) fn reason(
    setting: &Setting,
    decisions: &[StepDecision],
    cluster: &str,
    step: usize,
) -> Option<(Reason, Standing)> {
    let decision = decisions.get(step)?;
    let asked = Asked {
        now: setting.now,
        facts: setting.cluster(cluster)?,
        spec: &setting.steps.get(step)?.spec,
        standing: setting.standing(cluster)?.into_iter().nth(step)?,
        shares: shares(decision, cluster),
    };
    Some((asked.reason(decision), asked.standing))
}

/// The rows of a cluster.
pub(super) fn shares(decision: &StepDecision, cluster: &str) -> Vec<Share> {
    let mut shares = Vec::new();
    for workload in &decision.workloads {
        let from = workload
            .clusters
            .partition_point(|row| row.name.as_str() < cluster);
        let rows = workload.clusters.iter().skip(from);
        for row in rows.take_while(|row| row.name == cluster) {
            let total = workload
                .rules
                .iter()
                .find(|t| t.rule.as_deref() == Some(&row.rule));
            shares.push(Share {
                workload: workload.workload.clone(),
                rule: row.rule.to_string(),
                replicas: row.replicas,
                duplicate: row.duplicate,
                total: total.map_or(0, |total| total.total),
                quota: row.quota.as_ref().map(ToString::to_string),
                bound: row.bound.as_deref().map(str::to_owned),
                tie: row.tie.as_deref().map(str::to_owned),
            });
        }
    }
    shares
}
