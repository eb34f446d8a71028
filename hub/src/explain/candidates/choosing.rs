//! Ways among the clusters that a step chooses: past taints, up in the order of `maxClusters`, within the skew.

use super::{Candidate, MAX_MATCHES, Offer, Subject};
use crate::{
    explain::{Change, Form, change::is_the_hubs, conditions},
    placement::Standing,
};
use roundhouse_api::{
    names::is_bookkeeping,
    placement::{Rebalance, Taint},
};

impl Subject<'_> {
    /// One taint less, or tolerated.
    pub(super) fn untaint(&self) -> Vec<Candidate> {
        let Some(step) = self.setting.steps.get(self.step) else {
            return Vec::new();
        };
        let open = |taint: &&Taint| !conditions::tolerates(&step.spec, taint, self.setting.now);
        let mut taints: Vec<&Taint> = self.facts.taints.iter().filter(open).collect();
        // The strongest decides, so it goes first.
        taints.sort_by_key(|taint| std::cmp::Reverse(taint.effect));
        let Some(taint) = taints.first() else {
            return Vec::new();
        };
        if is_the_hubs(taint) {
            return vec![Candidate::one(match self.facts.joined {
                true => Change::Reconnect,
                false => Change::Join,
            })];
        }
        let mut all = vec![Candidate::one(Change::RemoveTaint((*taint).clone()))];
        // Topology policies alone have no place for tolerations.
        if self.setting.form_of(self.step) != Form::Topology {
            all.push(Candidate::one(Change::Tolerate {
                step: self.step,
                taint: (*taint).clone(),
            }));
        }
        all
    }

    /// Further up in the order of `maxClusters`, or a longer order.
    pub(super) fn rank(&self, standing: &Standing) -> Vec<Candidate> {
        let mut all = self.weights();
        all.extend(self.rebalance());
        let limit = self
            .setting
            .steps
            .get(self.step)
            .and_then(|step| step.spec.max_clusters);
        if let (Some(limit), Some(place)) = (limit, &standing.place) {
            let step = self.step;
            let to = u32::try_from(place.of).unwrap_or(u32::MAX);
            all.push(Candidate::least(limit.saturating_add(1), to, move |clusters| {
                Change::MaxClusters { step, clusters }
            }));
        }
        all
    }

    /// A cluster that holds something is let in with its trouble if it ranks among those that are chosen: only when it
    /// does not, the trouble is named as the reason.
    pub(super) fn in_spite_of_trouble(&self, standing: &Standing) -> Offer {
        if standing.place.is_none() {
            return Offer::default();
        }
        let mut all = self.rank(standing);
        all.extend(self.skew(standing));
        self.topology(standing).and(all.into())
    }

    /// Another value of the label that the spread goes by.
    pub(super) fn topology(&self, standing: &Standing) -> Offer {
        let spread = self.spec().and_then(|spec| spec.spread.as_ref());
        let Some(key) = spread
            .map(|spread| &spread.topology_key)
            .filter(|key| !is_bookkeeping(key))
        else {
            return Offer::default();
        };
        let mut values: Vec<&String> = standing.groups.keys().collect();
        values.retain(|value| self.facts.labels.get(key) != Some(*value));
        let label = |value: &String| Change::SetLabel {
            key: key.clone(),
            value: value.clone(),
        };
        Offer {
            cut: values.len() > MAX_MATCHES,
            all: values
                .into_iter()
                .take(MAX_MATCHES)
                .map(|value| Candidate::one(label(value)))
                .collect(),
        }
    }

    /// A larger skew.
    pub(super) fn skew(&self, standing: &Standing) -> Option<Candidate> {
        let step = self.step;
        let spread = self.spec()?.spread.as_ref()?;
        let all: u32 = standing.groups.values().map(|(_, could)| *could).sum();
        Some(Candidate::least(
            spread.max_skew.saturating_add(1),
            all,
            move |skew| Change::MaxSkew { step, skew },
        ))
    }

    /// What was placed before may move.
    pub(super) fn rebalance(&self) -> Option<Candidate> {
        let never = self.spec()?.rebalance == Rebalance::Never;
        never.then(|| Candidate::one(Change::RebalanceOnChange { step: self.step }))
    }
}
