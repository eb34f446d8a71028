//! The command line of the agent.

use clap::Parser;
use roundhouse_agent::Config;
use roundhouse_api::bundle::ApplyOnce;
use roundhouse_api::names::ClusterName;
use std::path::PathBuf;
use std::time::Duration;

/// Applies what the hub sends to this cluster, and reports what became of it.
///
/// The agent dials the hub, never the other way round. It serves the hub's namespace `cluster-NAME`: it applies the
/// Bundles there in the member cluster, watches what it applied, renews the Lease `agent` and writes the ClusterReport.
#[derive(Debug, Parser)]
#[command(name = "roundhouse-agent", version)]
pub(crate) struct Arguments {
    /// Name of this cluster on the hub
    #[arg(long, env = "ROUNDHOUSE_CLUSTER", value_name = "NAME", value_parser = cluster_name)]
    cluster: ClusterName,
    /// Kubeconfig for the hub
    #[arg(long, env = "ROUNDHOUSE_HUB_KUBECONFIG", value_name = "FILE")]
    pub(crate) hub_kubeconfig: PathBuf,
    /// Kubeconfig for the member; without it the cluster that the agent runs in, or $KUBECONFIG
    #[arg(long, env = "ROUNDHOUSE_MEMBER_KUBECONFIG", value_name = "FILE")]
    pub(crate) member_kubeconfig: Option<PathBuf>,
    /// Whether an object that was applied is left alone until its content changes: off repairs every difference, on
    /// applies each content once, force moreover leaves an object deleted that somebody deleted. A Bundle's applyOnce
    /// goes first
    #[arg(long, env = "ROUNDHOUSE_APPLY_ONCE_ONLY", value_name = "off|on|force", default_value = "off", value_parser = apply_once)]
    apply_once_only: ApplyOnce,
    /// Name under which the Lease is held
    #[arg(
        long,
        env = "ROUNDHOUSE_IDENTITY",
        value_name = "NAME",
        default_value = "roundhouse-agent"
    )]
    identity: String,
    /// How long the hub takes a renewal of the Lease for a sign of life
    #[arg(long, env = "ROUNDHOUSE_LEASE_DURATION", value_name = "SECONDS", default_value = "40", value_parser = seconds)]
    lease_duration: Duration,
    /// How often the Lease is renewed; shorter than --lease-duration
    #[arg(long, env = "ROUNDHOUSE_LEASE_INTERVAL", value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    lease_interval: Duration,
    /// How often everything is looked at again behind the watches
    #[arg(long, env = "ROUNDHOUSE_RESYNC", value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    resync: Duration,
    /// Bundles that are worked on at a time
    #[arg(
        long,
        env = "ROUNDHOUSE_CONCURRENT_BUNDLES",
        value_name = "N",
        default_value_t = 4
    )]
    concurrent_bundles: usize,
    /// What is logged to standard error, as tracing filters
    #[arg(long, env = "ROUNDHOUSE_LOG", value_name = "FILTER", default_value = "info")]
    pub(crate) log: String,
}

impl Arguments {
    /// The configuration of the library.
    pub(crate) fn config(&self) -> Config {
        Config {
            identity: self.identity.clone(),
            apply_once: self.apply_once_only,
            resync: self.resync,
            lease_interval: self.lease_interval.min(self.lease_duration / 2),
            lease_duration: self.lease_duration,
            concurrent_bundles: self.concurrent_bundles,
            ..Config::new(self.cluster.clone())
        }
    }
}

fn cluster_name(text: &str) -> Result<ClusterName, String> {
    ClusterName::new(text).map_err(|error| error.to_string())
}

/// YAML 1.1 reads the bare words `on` and `off` as booleans, so a chart may hand us those.
fn apply_once(text: &str) -> Result<ApplyOnce, String> {
    match text {
        "off" | "false" => Ok(ApplyOnce::Never),
        "on" | "true" => Ok(ApplyOnce::Once),
        "force" => Ok(ApplyOnce::Force),
        _ => Err("use off, on or force".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.trim_end_matches('s').parse::<u64>() {
        Ok(0) | Err(_) => Err("use a whole number of seconds, at least 1".to_owned()),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Arguments, clap::Error> {
        let given = [
            "roundhouse-agent",
            "--cluster",
            "c1",
            "--hub-kubeconfig",
            "hub.yaml",
        ];
        Arguments::try_parse_from(given.iter().chain(arguments))
    }

    #[test]
    fn the_modes_of_apply_once_and_their_booleans() {
        for (word, expected) in [
            ("off", ApplyOnce::Never),
            ("false", ApplyOnce::Never),
            ("on", ApplyOnce::Once),
            ("true", ApplyOnce::Once),
            ("force", ApplyOnce::Force),
        ] {
            let arguments = parse(&[&format!("--apply-once-only={word}")]).unwrap();
            assert_eq!(arguments.config().apply_once, expected, "{word}");
        }
        let refused = parse(&["--apply-once-only=maybe"]).unwrap_err().to_string();
        assert!(refused.contains("use off, on or force"), "{refused}");
    }

    #[test]
    fn a_lease_is_renewed_before_it_runs_out() {
        let config = parse(&["--lease-duration", "6", "--lease-interval", "30"])
            .unwrap()
            .config();
        assert_eq!(config.lease_interval, Duration::from_secs(3));
        assert!(parse(&["--resync", "0"]).is_err());
        assert!(
            Arguments::try_parse_from(["roundhouse-agent", "--cluster", "Bad", "--hub-kubeconfig", "x"])
                .is_err()
        );
    }
}
