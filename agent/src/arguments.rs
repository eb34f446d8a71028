//! The command line of the agent.

use clap::{ArgGroup, Parser};
use kube::Client;
use roundhouse_agent::identity::{Keeper, Place, Source};
use roundhouse_agent::{Config, LabelError, Labels};
use roundhouse_api::bundle::ApplyOnce;
use roundhouse_api::clock::SharedClock;
use roundhouse_api::cluster::LONGEST_CERTIFICATE;
use roundhouse_api::names::ClusterName;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Applies what the hub sends to this cluster, and reports what became of it.
///
/// The agent dials the hub, never the other way round. It serves the hub's namespace `cluster-NAME`: it applies the
/// Bundles there in the member cluster, watches what it applied, renews the Lease `agent` and writes the ClusterReport.
///
/// `roundhouse join NAME` on the hub prints an invitation. With it the agent makes a key, asks the hub for a certificate,
/// waits until `roundhouse accept NAME` lets it in, and renews the certificate from then on.
#[derive(Debug, Parser)]
#[command(name = "roundhouse-agent", version)]
#[command(group = ArgGroup::new("access").required(true).multiple(true).args([
    "hub_kubeconfig", "identity_dir", "identity_secret",
]))]
pub(crate) struct Arguments {
    /// Name of this cluster on the hub
    #[arg(long, env = "ROUNDHOUSE_CLUSTER", value_name = "NAME", value_parser = cluster_name)]
    cluster: ClusterName,
    /// Invitation that `roundhouse join NAME` printed, in one line; used until there is an identity, and again when its
    /// serial is higher. One that is damaged ends an agent that has no identity, and no other
    #[arg(long, env = "ROUNDHOUSE_INVITATION", value_name = "TEXT", value_parser = given, hide_env_values = true,
        requires = "place", conflicts_with = "bootstrap_kubeconfig")]
    invitation: Option<Source>,
    /// The same as a file; it may come later or change, and is read again
    #[arg(
        long,
        env = "ROUNDHOUSE_BOOTSTRAP_KUBECONFIG",
        value_name = "FILE",
        requires = "place"
    )]
    bootstrap_kubeconfig: Option<PathBuf>,
    /// Directory where the agent keeps its key and its certificate; nobody else may read it
    #[arg(long, env = "ROUNDHOUSE_IDENTITY_DIR", value_name = "DIR", group = "place")]
    identity_dir: Option<PathBuf>,
    /// Secret of the member cluster where it keeps them instead
    #[arg(long, env = "ROUNDHOUSE_IDENTITY_SECRET", value_name = "NAMESPACE/NAME", value_parser = secret_name, group = "place")]
    identity_secret: Option<SecretName>,
    /// Directory where the Bundles are kept as the hub last sent them, Secrets and all, so that an agent which starts while
    /// its hub is away heals what it had applied of them; without it, such an agent waits for its hub. Nobody else may read it
    #[arg(long, env = "ROUNDHOUSE_BUNDLES_DIR", value_name = "DIR")]
    bundles_dir: Option<PathBuf>,
    /// How long a certificate or token is asked to be good, at least 600; the hub may make it shorter. It is renewed at 70
    /// to 80 percent of its life
    #[arg(long, env = "ROUNDHOUSE_CERTIFICATE_LIFETIME", value_name = "SECONDS", default_value = "2592000", value_parser = lifetime)]
    certificate_lifetime: Duration,
    /// Kubeconfig for the hub, ready to use: then the agent asks for no identity and renews nothing
    #[arg(long, env = "ROUNDHOUSE_HUB_KUBECONFIG", value_name = "FILE", conflicts_with_all = ["place", "invitation", "bootstrap_kubeconfig"])]
    pub(crate) hub_kubeconfig: Option<PathBuf>,
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
    /// How often the Lease is renewed; more than half of --lease-duration counts as half of it
    #[arg(long, env = "ROUNDHOUSE_LEASE_INTERVAL", value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    lease_interval: Duration,
    /// How often everything is looked at again behind the watches
    #[arg(long, env = "ROUNDHOUSE_RESYNC", value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    resync: Duration,
    /// Label that the agent proposes for its Cluster, below agent.roundhouse.dev/; may be given 16 times
    #[arg(
        long = "label",
        env = "ROUNDHOUSE_LABELS",
        value_name = "KEY=VALUE",
        value_delimiter = ','
    )]
    labels: Vec<String>,
    /// Where /healthz and /readyz are answered, such as 0.0.0.0:8081; without it nowhere
    #[arg(long, env = "ROUNDHOUSE_HEALTH_LISTEN", value_name = "ADDRESS")]
    pub(crate) health_listen: Option<SocketAddr>,
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
    ///
    /// # Errors
    /// If a label cannot be proposed.
    pub(crate) fn config(&self) -> Result<Config, LabelError> {
        let secret = self.identity_secret.as_ref();
        Ok(Config {
            labels: Labels::parse(self.labels.iter().map(String::as_str))?,
            bundles_dir: self.bundles_dir.clone(),
            identity_secret: secret.map(|secret| (secret.namespace.clone(), secret.name.clone())),
            identity: self.identity.clone(),
            apply_once: self.apply_once_only,
            resync: self.resync,
            lease_interval: self.lease_interval.min(self.lease_duration / 2),
            lease_duration: self.lease_duration,
            concurrent_bundles: self.concurrent_bundles,
            ..Config::new(self.cluster.clone())
        })
    }

    /// Who keeps the identity of the agent; `None` if a kubeconfig has it.
    pub(crate) fn keeper(&self, member: &Client, config: &Config, clock: SharedClock) -> Option<Keeper> {
        let place = match (&self.identity_dir, &self.identity_secret) {
            (Some(directory), _) => Place::Directory(directory.clone()),
            (None, Some(SecretName { namespace, name })) => Place::Secret {
                client: member.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            },
            (None, None) => return None,
        };
        let source = match (&self.invitation, &self.bootstrap_kubeconfig) {
            (Some(given), _) => given.clone(),
            (None, Some(file)) => Source::File(file.clone()),
            (None, None) => Source::None,
        };
        let jitter = Arc::clone(&config.jitter);
        let mut keeper = Keeper::new(self.cluster.clone(), place, source, clock, jitter);
        keeper.lifetime = self.certificate_lifetime;
        Some(keeper)
    }

    /// Where an invitation comes from, in the words of the command line.
    pub(crate) fn invited_by(&self) -> &'static str {
        match self.invitation {
            Some(_) => "--invitation",
            None => "--bootstrap-kubeconfig",
        }
    }
}

/// Namespace and name of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SecretName {
    namespace: String,
    name: String,
}

fn secret_name(text: &str) -> Result<SecretName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(SecretName {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        }
        _ => Err("use NAMESPACE/NAME".to_owned()),
    }
}

/// Never refused here: whether an agent ends of it depends on whether it has an identity.
fn given(text: &str) -> Result<Source, Infallible> {
    Ok(Source::given(text))
}

/// Kubernetes' signer issues nothing shorter.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(600);

fn lifetime(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        lifetime if lifetime < SHORTEST_LIFETIME => {
            Err("use at least 600 seconds: certificates that end sooner are not issued".to_owned())
        }
        lifetime if lifetime > LONGEST_CERTIFICATE => Err(format!(
            "use at most {} seconds: hubs give no certificates that end later",
            LONGEST_CERTIFICATE.as_secs()
        )),
        lifetime => Ok(lifetime),
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
            assert_eq!(arguments.config().unwrap().apply_once, expected, "{word}");
        }
        let refused = parse(&["--apply-once-only=maybe"]).unwrap_err().to_string();
        assert!(refused.contains("use off, on or force"), "{refused}");
    }

    #[test]
    fn bundles_are_kept_where_it_is_said_and_only_then() {
        assert_eq!(parse(&[]).unwrap().config().unwrap().bundles_dir, None);
        let config = parse(&["--bundles-dir", "/var/b"]).unwrap().config().unwrap();
        assert_eq!(config.bundles_dir, Some(PathBuf::from("/var/b")));
        let help = <Arguments as clap::CommandFactory>::command()
            .render_long_help()
            .to_string();
        let (_, said) = help.split_once("--bundles-dir <DIR>").unwrap();
        let said = said.split("--certificate-lifetime").next().unwrap();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "as the hub last sent them, Secrets and all",
            "ROUNDHOUSE_BUNDLES_DIR",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn an_agent_has_one_way_to_its_hub() {
        let parse = |arguments: &str| {
            let given = ["roundhouse-agent", "--cluster", "c1"].into_iter();
            Arguments::try_parse_from(given.chain(arguments.split(' ')))
        };
        for good in [
            "--hub-kubeconfig f",
            "--identity-dir d",
            "--identity-dir d --bootstrap-kubeconfig f",
            "--identity-secret ns/name --bootstrap-kubeconfig f --certificate-lifetime 600",
            "--identity-dir d --invitation x",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good).err());
        }
        for (bad, why) in [
            ("--log info", "required"),
            ("--bootstrap-kubeconfig f", "required"),
            (
                "--identity-dir d --invitation x --bootstrap-kubeconfig f",
                "cannot be used with",
            ),
            ("--hub-kubeconfig f --identity-dir d", "cannot be used with"),
            (
                "--hub-kubeconfig f --bootstrap-kubeconfig f",
                "cannot be used with",
            ),
            (
                "--identity-dir d --identity-secret ns/name",
                "cannot be used with",
            ),
            ("--identity-secret name", "use NAMESPACE/NAME"),
            ("--identity-dir d --certificate-lifetime 599", "at least 600"),
            (
                "--identity-dir d --certificate-lifetime 7776001",
                "at most 7776000",
            ),
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn labels_come_one_by_one_or_in_a_row() {
        let config = parse(&["--label", "zone=a", "--label", "rack=1,row=2"])
            .unwrap()
            .config();
        assert_eq!(
            config.unwrap().labels,
            Labels::parse(["row=2", "rack=1", "zone=a"]).unwrap()
        );
        let error = parse(&["--label", "region=x,example.com/zone=a"])
            .unwrap()
            .config()
            .unwrap_err();
        assert!(error.to_string().contains("example.com/zone"), "{error}");
    }

    #[test]
    fn a_lease_is_renewed_before_it_runs_out() {
        let config = parse(&["--lease-duration", "6", "--lease-interval", "30"])
            .unwrap()
            .config()
            .unwrap();
        assert_eq!(config.lease_interval, Duration::from_secs(3));
        assert!(parse(&["--resync", "0"]).is_err());
        assert!(
            Arguments::try_parse_from(["roundhouse-agent", "--cluster", "Bad", "--hub-kubeconfig", "x"])
                .is_err()
        );
    }
}
