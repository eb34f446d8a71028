//! `roundhouse accept` and `revoke`: who is let in as the agent of a cluster, and who no longer.

use super::{Failure, hub, terminal};
use kube::{Api, Client, ResourceExt};
use roundhouse_api::{
    cluster::{AgentIdentity, Cluster, IdentityMethod},
    names::ClusterName,
};
use serde_json::{Value, json};
use std::{path::PathBuf, process::ExitCode, time::Duration};

/// Exit status of what was not done because something else is there than was said.
const REFUSED: u8 = 3;
const LOOK: Duration = Duration::from_millis(200);

/// Let a cluster in
///
/// The agent that asks with the key that the hub shows now gets its certificate, and no other one; where none has asked yet,
/// whoever has the invitation first. The agent logs the digest of its key; with --key only that one is let in. Where tokens are
/// the identity of agents (serve --agent-identity token) there are no keys: whoever has the invitation is let in.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The cluster
    #[arg(value_name = "CLUSTER", value_parser = |name: &str| ClusterName::new(name))]
    cluster: ClusterName,
    /// Digest of the agent's key, sha256:…, as its log says
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    key: Option<String>,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
}

/// End the identity of a cluster's agent
///
/// The certificate or the token that its agent has gives no right any more to what it begins from then on; what the agent
/// applied stays, and it goes on with what it has. `roundhouse join` invites it anew.
///
/// An embedded hub also ends what is under way. On a Kubernetes API server watches that the agent has open go on until their
/// timeout (5 to 10 minutes), or until the API server is restarted.
#[derive(Debug, clap::Args)]
pub(super) struct RevokeArgs {
    /// The cluster
    #[arg(value_name = "CLUSTER", value_parser = |name: &str| ClusterName::new(name))]
    cluster: ClusterName,
    /// How long the hub may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
}

fn digest(text: &str) -> Result<String, String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    let digits = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if hex.len() == 64 && hex.bytes().all(digits) {
        return Ok(format!("sha256:{hex}"));
    }
    Err("use sha256: and 64 hexadecimal digits, as the agent's log says".to_owned())
}

/// What accepting writes: a merge patch, or `None` if all is so already. `Err` has the key that waits, which is another one.
fn accepting(cluster: &Cluster, key: Option<&str>) -> Result<Option<Value>, String> {
    // What the hub shows may be of the invitation before this one.
    let identity = identity(cluster).filter(|identity| identity.observed_serial == cluster.spec.serial);
    let waiting = identity.and_then(|identity| identity.waiting_key.clone());
    if let (Some(key), Some(waiting)) = (key, &waiting)
        && key != waiting
    {
        return Err(waiting.clone());
    }
    let accepted = key.map(str::to_owned).or(waiting);
    let spec = &cluster.spec;
    let used = identity.is_some_and(|identity| identity.serial == spec.serial);
    let same = match &accepted {
        Some(_) => spec.accepted_key == accepted,
        // Nobody asks: whoever is let in is in already, or whoever comes first is to be.
        None => used || spec.auto_accept || spec.accepted_key.is_some(),
    };
    if spec.accepted && same {
        return Ok(None);
    }
    let mut patch =
        json!({"metadata": {"resourceVersion": cluster.resource_version()}, "spec": {"accepted": true}});
    match accepted {
        Some(key) => patch["spec"]["acceptedKey"] = key.into(),
        None if !used => patch["spec"]["autoAccept"] = true.into(),
        None => {}
    }
    Ok(Some(patch))
}

fn identity(cluster: &Cluster) -> Option<&AgentIdentity> {
    cluster.status.as_ref()?.identity.as_ref()
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let client = hub::connect(args.kubeconfig.as_deref()).await?;
    let name = &args.cluster;
    let cluster = read(&client, name).await?;
    if cluster.metadata.deletion_timestamp.is_some() {
        return Err(Failure::new("E-LEAVING", format!("cluster {name} is leaving"))
            .advise(format!("roundhouse join {name} when it has left"))
            .ends_with(REFUSED));
    }
    if args.key.is_some() && identity(&cluster).is_some_and(|known| known.method == IdentityMethod::Token) {
        return Err(Failure::new("E-KEY", format!("cluster {name} was not accepted"))
            .because("tokens are the identity of agents here: none of them asks with a key")
            .advise(format!("roundhouse accept {name} without --key"))
            .ends_with(REFUSED));
    }
    let patch = accepting(&cluster, args.key.as_deref()).map_err(|waiting| {
        Failure::new("E-KEY", format!("cluster {name} was not accepted"))
            .because(format!("the key that asks is {waiting}"))
            .advise(format!(
                "look at the agent's log; if that is not its key somebody else has the invitation: roundhouse join {name} makes another one"
            ))
            .ends_with(REFUSED)
    })?;
    let Some(patch) = patch else {
        terminal::tell(format_args!("cluster {name} is accepted already"));
        return Ok(ExitCode::SUCCESS);
    };
    let written = write(&client, name, &patch).await?;
    match &written.spec.accepted_key {
        Some(key) => terminal::tell(format_args!("cluster {name} accepted, with key {key}")),
        None if written.spec.serial == 0 => {
            terminal::tell(format_args!(
                "cluster {name} accepted; its agent needs an invitation: roundhouse join {name}"
            ));
        }
        None => terminal::tell(format_args!(
            "cluster {name} accepted: whoever has the invitation first is let in"
        )),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn revoke(args: RevokeArgs) -> Result<ExitCode, Failure> {
    let client = hub::connect(args.kubeconfig.as_deref()).await?;
    let name = &args.cluster;
    let cluster = read(&client, name).await?;
    let serial = cluster.spec.serial.saturating_add(1);
    let patch = json!({"metadata": {"resourceVersion": cluster.resource_version()},
        "spec": {"serial": serial, "joinUntil": null, "acceptedKey": null, "autoAccept": false}});
    write(&client, name, &patch).await?;
    // Then the rights on the hub are of this serial, and of no earlier one.
    let over = |cluster: &Cluster| identity(cluster).is_some_and(|known| known.observed_serial >= serial);
    let look = async {
        loop {
            let cluster = read(&client, name).await?;
            if over(&cluster) {
                return Ok::<(), Failure>(());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(args.timeout), look).await {
        Ok(done) => done?,
        Err(_) => {
            return Err(Failure::new(
                "E-TIMEOUT",
                format!(
                    "the hub has not ended the identity of cluster {name} in {} s",
                    args.timeout
                ),
            )
            .because("the serial is raised: it ends as soon as a hub runs")
            .advise("check that a hub runs (roundhouse serve)"));
        }
    }
    terminal::tell(format_args!(
        "the identity of the agent of cluster {name} is ended; roundhouse join {name} invites it anew"
    ));
    if !hub::is_embedded(&client).await {
        terminal::tell(format_args!(
            "note: watches that it has open end with their timeout, or when the API server is restarted: Kubernetes authorizes them when they begin"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn read(client: &Client, name: &ClusterName) -> Result<Cluster, Failure> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let found = clusters.get_opt(name.as_str()).await;
    match found.map_err(|error| hub::unreadable("Clusters", error))? {
        Some(cluster) => Ok(cluster),
        None => {
            let all = clusters.list_metadata(&Default::default()).await;
            let names: Vec<String> = all
                .map(|all| all.items.iter().map(ResourceExt::name_any).collect())
                .unwrap_or_default();
            Err(hub::no_cluster(name.as_str(), &names, "one of them"))
        }
    }
}

async fn write(client: &Client, name: &ClusterName, patch: &Value) -> Result<Cluster, Failure> {
    let written = hub::patch_cluster(client, name.as_str(), patch).await;
    let what = format!("cluster {name} was not changed");
    written.map_err(|error| hub::unwritten(what, hub::AGAIN, "patch", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::cluster::{ClusterSpec, ClusterStatus};

    fn cluster(accepted: bool, accepted_key: Option<&str>, waiting: Option<&str>) -> Cluster {
        let mut cluster = Cluster::new(
            "c1",
            ClusterSpec {
                accepted,
                serial: 1,
                accepted_key: accepted_key.map(str::to_owned),
                ..ClusterSpec::default()
            },
        );
        cluster.status = Some(ClusterStatus {
            identity: Some(AgentIdentity {
                observed_serial: 1,
                waiting_key: waiting.map(str::to_owned),
                ..AgentIdentity::default()
            }),
            ..ClusterStatus::default()
        });
        cluster
    }

    #[test]
    fn the_key_that_waits_is_the_one_that_is_accepted() {
        let spec = |cluster: &Cluster, key| match accepting(cluster, key) {
            Ok(Some(patch)) => patch["spec"].to_string(),
            Ok(None) => "nothing".to_owned(),
            Err(other) => format!("not {other}"),
        };
        let waits = cluster(false, None, Some("a"));
        assert_eq!(spec(&waits, None), r#"{"accepted":true,"acceptedKey":"a"}"#);
        assert_eq!(spec(&waits, Some("a")), r#"{"accepted":true,"acceptedKey":"a"}"#);
        assert_eq!(spec(&waits, Some("b")), "not a");
        let early = cluster(false, None, None);
        assert_eq!(spec(&early, None), r#"{"accepted":true,"autoAccept":true}"#);
        assert_eq!(spec(&early, Some("b")), r#"{"accepted":true,"acceptedKey":"b"}"#);
        let again = cluster(true, None, Some("a"));
        assert_eq!(spec(&again, None), r#"{"accepted":true,"acceptedKey":"a"}"#);
        let mut stale = cluster(true, None, Some("a"));
        stale.spec.serial = 2;
        assert_eq!(spec(&stale, None), r#"{"accepted":true,"autoAccept":true}"#);
        assert_eq!(spec(&stale, Some("b")), r#"{"accepted":true,"acceptedKey":"b"}"#);
        assert_eq!(spec(&cluster(true, Some("a"), None), None), "nothing");
        assert_eq!(spec(&cluster(true, Some("a"), None), Some("a")), "nothing");
    }

    #[test]
    fn digests_are_written_with_or_without_their_kind() {
        let hex = "0123456789abcdef".repeat(4);
        assert_eq!(digest(&hex), Ok(format!("sha256:{hex}")));
        assert_eq!(digest(&format!("sha256:{hex}")), Ok(format!("sha256:{hex}")));
        for text in ["", "sha256:", "sha512:00", &hex[1..], &hex.to_uppercase()] {
            assert!(digest(text).is_err(), "{text}");
        }
    }
}
