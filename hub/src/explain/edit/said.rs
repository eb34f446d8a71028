//! A change in words.

use super::Source;
use crate::{
    explain::{Change, Form, Setting},
    words,
};
use roundhouse_api::cluster::TAINT_CORDONED;

impl Source {
    /// A change in words.
    pub fn words(&self, change: &Change, setting: &Setting, cluster: &str) -> String {
        let step = |at: usize| setting.steps.get(at).map_or("", |step| step.name.as_str());
        let rule = |(at, index): (usize, usize)| {
            let rule = setting
                .steps
                .get(at)
                .and_then(|step| step.spec.placement.get(index));
            let rule = rule.map_or_else(String::new, |rule| rule.name_or_index(index));
            match setting.steps.len() {
                // Its rule has the name of the policy.
                _ if setting.form((at, index)) == Form::Topology => format!("policy {rule}"),
                1 => format!("rule {rule}"),
                _ => format!("rule {rule} of step {}", step(at)),
            }
        };
        let now = |(at, index): (usize, usize)| setting.steps.get(at)?.spec.placement.get(index);
        let facts = setting.cluster(cluster);
        match change {
            Change::SetLabel { key, value } => match facts.and_then(|facts| facts.labels.get(key)) {
                Some(now) => format!("label {key}={value} (now {now})"),
                None => format!("label {key}={value}"),
            },
            Change::RemoveLabel { key } => format!("remove label {key}"),
            Change::RemoveTaint(taint) if taint.key == TAINT_CORDONED => "uncordon it".to_owned(),
            Change::RemoveTaint(taint) => format!("remove taint {}", words::taint(taint)),
            Change::AddTaint(taint) => format!("taint it {}", words::taint(taint)),
            Change::Accept => "accept it".to_owned(),
            Change::Join => "let its agent join".to_owned(),
            Change::Reconnect => "let its agent reach the hub again".to_owned(),
            Change::Capacity(capacity) => {
                let now = facts.and_then(|facts| facts.capacity).unwrap_or(0);
                format!(
                    "capacity for {} (now {now})",
                    words::count(u64::from(*capacity), "replica", "replicas")
                )
            }
            Change::Allocatable { resource, quantity } => {
                let now = facts.and_then(|facts| facts.allocatable.get(resource));
                let now = now.map_or("not reported", String::as_str);
                format!("allocatable {resource} of {quantity} (now {now})")
            }
            Change::Tolerate { step: at, taint } => {
                format!("tolerate taint {} in step {}", words::taint(taint), step(*at))
            }
            Change::AddName { rule: at } => format!("list it under clusters of {}", rule(*at)),
            Change::RemoveName { rule: at } => format!("take it off clusters of {}", rule(*at)),
            Change::Unrequire { rule: at, key } => format!("ask for no label {key} in {}", rule(*at)),
            Change::Weight { rule: at, weight } => {
                let now = now(*at)
                    .and_then(|rule| rule.weights.get(cluster))
                    .copied()
                    .unwrap_or(1);
                format!("weight {weight} in {} (now {now})", rule(*at))
            }
            Change::MaxClusters { step: at, clusters } => {
                let now = setting.steps.get(*at).and_then(|step| step.spec.max_clusters);
                let now = now.map_or_else(String::new, |now| format!(" (now {now})"));
                format!("maxClusters {clusters}{now}")
            }
            Change::MaxSkew { step: at, skew } => {
                let spread = setting.steps.get(*at).and_then(|step| step.spec.spread.as_ref());
                let now = spread.map_or_else(String::new, |spread| format!(" (now {})", spread.max_skew));
                format!("spread.maxSkew {skew}{now}")
            }
            Change::Share { rule: at, share } => {
                let now = now(*at).and_then(|rule| rule.replicas);
                let now = now.map_or_else(String::new, |now| format!(" (now {now})"));
                format!("replicas {share} in {}{now}", rule(*at))
            }
            Change::Min { rule: at, min } => format!("perCluster.min {min} in {}", rule(*at)),
            Change::Max { rule: at, max } => format!("perCluster.max {max} in {}", rule(*at)),
            Change::RebalanceOnChange { step: at } => format!("rebalance OnChange in step {}", step(*at)),
            Change::Replicas { workload, replicas } => {
                let completions = self.completions(workload, *replicas);
                let completions = completions.map_or_else(String::new, |(_, now)| {
                    let now = words::thousands(now);
                    format!(", and as many completions (now {now})")
                });
                format!(
                    "{} of {} {}/{} (now {}){completions}",
                    words::count((*replicas).into(), "replica", "replicas"),
                    workload.kind,
                    workload.namespace,
                    workload.name,
                    words::thousands(setting.replicas(workload))
                )
            }
        }
    }
}
