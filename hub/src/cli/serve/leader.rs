//! The flags of the election, and what is made of them.

use crate::{
    cli::{Failure, watch::duration},
    leader::{Election, NAMESPACE, Timing},
};
use std::{path::Path, time::Duration};

/// Where a pod finds its own namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Several hubs")]
pub(super) struct LeaderArgs {
    /// Write only when elected among several hubs [default: true with --in-cluster, false otherwise]
    ///
    /// The others watch everything and write nothing. The leader is the holder of the Lease roundhouse-hub. A hub that is alone
    /// takes it without asking.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: Option<bool>,
    /// Namespace of the Lease [default: that of the pod, otherwise roundhouse-system]
    #[arg(long, value_name = "NS")]
    leader_elect_namespace: Option<String>,
    /// How long the others wait for a leader that is not heard of
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// How long a leader that cannot renew the Lease goes on writing
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// How often the leader renews the Lease
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    leader_elect_retry_period: Duration,
}

impl LeaderArgs {
    /// The election that they ask for; `pod` is what makes this process known among the others, such as the pod's name.
    ///
    /// # Errors
    /// The times do not fit together.
    pub(super) fn election(self, in_cluster: bool, pod: Option<String>) -> Result<Election, Failure> {
        self.of(in_cluster, pod, Path::new(OWN_NAMESPACE))
    }

    fn of(self, in_cluster: bool, pod: Option<String>, own: &Path) -> Result<Election, Failure> {
        let timing = Timing::new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        let timing = timing.map_err(|error| {
            Failure::new("E-USAGE", "the times of the election do not fit together")
                .because(error)
                .advise("--leader-elect-lease-duration 15s --leader-elect-renew-deadline 10s --leader-elect-retry-period 2s")
        })?;
        let mounted = || std::fs::read_to_string(own).ok().filter(|_| in_cluster);
        let namespace = self.leader_elect_namespace.or_else(mounted);
        let namespace = namespace
            .map(|name| name.trim().to_owned())
            .filter(|name| !name.is_empty());
        // Two processes of one pod, one after the other, are two.
        let process = uuid::Uuid::new_v4();
        let pod = pod.filter(|pod| !pod.is_empty());
        Ok(Election {
            namespace: namespace.unwrap_or_else(|| NAMESPACE.to_owned()),
            identity: format!("{}_{process}", pod.as_deref().unwrap_or("roundhouse")),
            timing: self.leader_elect.unwrap_or(in_cluster).then_some(timing),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches};

    fn args(words: &[&str]) -> LeaderArgs {
        let command = LeaderArgs::augment_args(clap::Command::new("serve"));
        let matches = command
            .try_get_matches_from([&["serve"], words].concat())
            .unwrap();
        LeaderArgs::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_hub_in_a_cluster_stands_for_election_unless_told_otherwise() {
        let nowhere = Path::new("/nowhere/namespace");
        for (words, in_cluster, elected) in [
            (&[][..], false, false),
            (&[], true, true),
            (&["--leader-elect"], false, true),
            (&["--leader-elect=true"], false, true),
            (&["--leader-elect=false"], true, false),
        ] {
            let election = args(words).of(in_cluster, None, nowhere).unwrap();
            assert_eq!(election.timing.is_some(), elected, "{words:?} {in_cluster}");
            assert_eq!(election.namespace, NAMESPACE);
        }
    }

    #[test]
    fn the_flags_fit_among_those_of_the_verb() {
        super::super::Args::augment_args(clap::Command::new("serve")).debug_assert();
    }

    #[test]
    fn the_namespace_of_the_pod_is_that_of_the_lease() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("namespace");
        std::fs::write(&own, "yard\n").unwrap();
        let namespace =
            |words: &[&str], in_cluster| args(words).of(in_cluster, None, &own).unwrap().namespace;
        assert_eq!(namespace(&[], true), "yard");
        assert_eq!(namespace(&[], false), NAMESPACE);
        assert_eq!(namespace(&["--leader-elect-namespace", "other"], true), "other");
    }

    #[test]
    fn every_process_has_an_identity_of_its_own() {
        let identity = || {
            args(&[])
                .election(true, Some("hub-0".to_owned()))
                .unwrap()
                .identity
        };
        let (one, two) = (identity(), identity());
        assert!(one.starts_with("hub-0_") && one != two, "{one} {two}");
    }

    #[test]
    fn times_that_do_not_fit_together_are_refused() {
        let failure = args(&["--leader-elect-lease-duration", "5s"])
            .election(true, None)
            .unwrap_err();
        let text = format!("{failure:?}");
        assert!(text.contains("renew deadline"), "{text}");
    }
}
