//! What a waiting step says.

use super::{ClusterEvidence, StepEvidence};
use roundhouse_api::application::WaitFor;

/// At most this many clusters are named.
const MAX_NAMED: usize = 5;
/// At most this many reasons of an unsatisfied decision are named.
const MAX_REASONS: usize = 3;

/// `c4 (agent unreachable since …), c5 (1/2 ready) and 3 more`.
pub(super) fn clusters<'c>(clusters: impl Iterator<Item = &'c ClusterEvidence>) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut more = 0;
    for cluster in clusters {
        let message = match cluster.message.as_str() {
            "" => cluster.state.as_str(),
            message => message,
        };
        match all.len() < MAX_NAMED {
            true => all.push(format!("{} ({message})", cluster.cluster)),
            false => more += 1,
        }
    }
    with_more(&all, more)
}

/// `c1, c2 and 3 more`.
pub(super) fn named(clusters: &[String]) -> String {
    let named = clusters.get(..MAX_NAMED).unwrap_or(clusters);
    with_more(named, clusters.len() - named.len())
}

fn with_more(named: &[String], more: usize) -> String {
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Says whom a step waits for: `waiting for 2 of 5 clusters: c4 (agent unreachable since …), c5 (1/2 ready)`.
pub fn waiting(evidence: &StepEvidence, wait: WaitFor) -> String {
    let (unsatisfied, clusters) = match evidence {
        StepEvidence::Refused { message, .. } | StepEvidence::Blocked { message } => return message.clone(),
        StepEvidence::AllowedEmpty => {
            return "no cluster is selected, which this placement allows".to_owned();
        }
        StepEvidence::Placed {
            unsatisfied,
            clusters,
        } => (unsatisfied, clusters),
    };
    let mut parts = Vec::new();
    let late: Vec<_> = clusters.iter().filter(|c| !c.state.passes(wait)).collect();
    if !late.is_empty() {
        parts.push(format!(
            "waiting for {} of {} clusters: {}",
            late.len(),
            clusters.len(),
            self::clusters(late.iter().copied())
        ));
    }
    if clusters.is_empty() {
        let text = match unsatisfied.is_empty() {
            // Every rule has its cluster, and each share is rounded to nothing.
            true => {
                "waiting: no cluster has a share, every one is 0 replicas; raise the replicas of the workload or the share of the step"
            }
            false => "waiting: no cluster is chosen",
        };
        parts.push(text.to_owned());
    }
    if !unsatisfied.is_empty() {
        let mut text = format!(
            "placement is not satisfied: {}",
            unsatisfied
                .iter()
                .take(MAX_REASONS)
                .cloned()
                .collect::<Vec<_>>()
                .join("; ")
        );
        if unsatisfied.len() > MAX_REASONS {
            text.push_str(&format!("; and {} more", unsatisfied.len() - MAX_REASONS));
        }
        parts.push(text);
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::{ClusterEvidence, ClusterState};

    fn cluster(name: &str, state: ClusterState, message: &str) -> ClusterEvidence {
        ClusterEvidence {
            cluster: name.to_owned(),
            state,
            message: message.to_owned(),
        }
    }

    #[test]
    fn shares_of_nothing_are_told_from_no_match() {
        let placed = |unsatisfied: &[&str]| StepEvidence::Placed {
            unsatisfied: unsatisfied.iter().map(|reason| (*reason).to_owned()).collect(),
            clusters: vec![],
        };
        assert!(waiting(&placed(&[]), WaitFor::Ready).contains("every one is 0 replicas"));
        assert!(waiting(&placed(&["rule-0: none"]), WaitFor::Ready).contains("no cluster is chosen"));
    }

    #[test]
    fn names_the_clusters_that_are_waited_for() {
        let evidence = StepEvidence::Placed {
            unsatisfied: vec![],
            clusters: vec![
                cluster("c1", ClusterState::Ready, ""),
                cluster(
                    "c4",
                    ClusterState::Unreachable,
                    "agent unreachable since 2026-01-01T00:00:00Z",
                ),
                cluster("c5", ClusterState::Applied, "1/2 ready"),
            ],
        };
        assert_eq!(
            waiting(&evidence, WaitFor::Ready),
            "waiting for 2 of 3 clusters: c4 (agent unreachable since 2026-01-01T00:00:00Z), c5 (1/2 ready)"
        );
        assert_eq!(
            waiting(&evidence, WaitFor::Applied),
            "waiting for 1 of 3 clusters: c4 (agent unreachable since 2026-01-01T00:00:00Z)"
        );
    }

    #[test]
    fn is_bounded() {
        let clusters = (0..1000)
            .map(|n| cluster(&format!("c{n}"), ClusterState::Waiting, &"x".repeat(40)))
            .collect();
        let unsatisfied = (0..1000).map(|n| format!("rule-{n}: NoClusterMatches")).collect();
        let text = waiting(
            &StepEvidence::Placed {
                unsatisfied,
                clusters,
            },
            WaitFor::Ready,
        );
        assert!(
            text.contains("and 995 more") && text.contains("and 997 more"),
            "{text}"
        );
        assert!(text.len() < 600);
    }

    #[test]
    fn says_that_nothing_matches() {
        let evidence = StepEvidence::Placed {
            unsatisfied: vec!["rule-0: no cluster matches region=mars".to_owned()],
            clusters: vec![],
        };
        assert_eq!(
            waiting(&evidence, WaitFor::None),
            "waiting: no cluster is chosen; placement is not satisfied: rule-0: no cluster matches region=mars"
        );
    }
}
