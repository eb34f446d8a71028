//! `roundhouse join`

mod invitation;
mod token;

use super::{
    Failure, hub, kubeconfig,
    reshape::grammar::{self, LabelEdit},
    terminal,
};
use clap::ValueEnum;
use invitation::Hub;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client, Error, ResourceExt, api::PostParams};
use roundhouse_api::{
    clock::{Clock, SystemClock},
    cluster::{Cluster, ClusterSpec},
    names::{ClusterName, JOIN_ACCOUNT, annotation},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};

/// The shortest and the longest time that an invitation holds. Tokens of less than ten minutes are given by nobody.
const HOLDS: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(30 * 86_400));
/// How often it is looked whether the hub has prepared the invitation.
const LOOK: Duration = Duration::from_millis(200);

/// Invite a cluster: print the one command that makes it join
///
/// Makes the Cluster if there is none of that name, and prints what starts its agent, with a token that is good for one
/// certificate within the time of --ttl. The agent makes its key itself; what it asks for is given when the cluster is
/// accepted: with --auto-accept at once, otherwise by `roundhouse accept`.
///
/// Joining again ends the identity that the cluster's agent has had until now; first it is tried whether the hub gives a token at
/// all, and where it gives none nothing is changed. A cluster that was accepted before keeps what is
/// placed there, and its new agent waits to be accepted all the same. It keeps its labels too: --label is for a Cluster that is made
/// here, and refused where it would change one that is there, since that moves replicas; `roundhouse label` does it, and says first
/// what would move.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The cluster
    #[arg(value_name = "CLUSTER", value_parser = |name: &str| ClusterName::new(name))]
    cluster: ClusterName,
    /// Let in whoever has the invitation first, without asking
    #[arg(long)]
    auto_accept: bool,
    /// How long the invitation holds: 10m to 30d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = ttl)]
    ttl: SignedDuration,
    /// Label of a Cluster that is made, which placements select by; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// Where the agent reaches the hub, if not where this kubeconfig does
    #[arg(long, value_name = "URL", value_parser = url)]
    hub_url: Option<String>,
    /// Certificates that the agent knows the hub by (PEM), if not those of this kubeconfig
    #[arg(long, value_name = "FILE")]
    hub_ca: Option<PathBuf>,
    /// What is printed
    #[arg(short, long, value_enum, default_value_t = Shape::Command)]
    output: Shape,
    /// How long the hub may take to prepare the invitation, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    kubeconfig: Option<PathBuf>,
}

/// The shapes of an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// The command that starts the agent on a machine
    Command,
    /// The command that installs the chart of the agent in the cluster
    Helm,
    /// A Secret for the chart's value existingSecret, to be applied in the cluster; its namespace is roundhouse-system
    Manifest,
    /// A kubeconfig, for --bootstrap-kubeconfig
    Kubeconfig,
}

fn ttl(text: &str) -> Result<SignedDuration, String> {
    let wrong = || "use a time such as 30m, 1h or 7d, from 10m to 30d".to_owned();
    // Days are 24 hours here, which a duration without a calendar does not know.
    let time: SignedDuration = match text.strip_suffix('d').map(str::parse::<i64>) {
        Some(Ok(days)) if (1..=30).contains(&days) => SignedDuration::from_hours(24 * days),
        Some(_) => return Err(wrong()),
        None => text.parse().map_err(|_| wrong())?,
    };
    let within = Duration::try_from(time).is_ok_and(|time| time >= HOLDS.0 && time <= HOLDS.1);
    if within { Ok(time) } else { Err(wrong()) }
}

/// The labels that are asked for, as the verb `label` reads them.
fn labels(arguments: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let refused = |why: String| {
        Failure::new("E-LABEL", "a label is not understood")
            .because(why)
            .advise("--label KEY=VALUE")
    };
    let edits = grammar::labels(arguments).map_err(|error| refused(error.to_string()))?;
    let set = edits.into_iter().map(|edit| match edit {
        LabelEdit::Set(key, value) => Ok((key, value)),
        LabelEdit::Remove(key) => Err(refused(format!("{key}- removes a label, and join removes none"))),
    });
    set.collect()
}

fn url(text: &str) -> Result<String, String> {
    let rest = text
        .strip_prefix("https://")
        .ok_or("use https://HOST:PORT: tokens are sent there")?;
    if rest.is_empty() || rest.contains(char::is_whitespace) {
        return Err("use https://HOST:PORT".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    // What no hub would be asked for is said without one.
    let labels = labels(&args.labels)?;
    let config = kubeconfig::config(args.kubeconfig.as_deref()).await?;
    let reached = Hub::of(&config, args.hub_url.as_deref(), args.hub_ca.as_deref())?;
    let client = hub::connect(args.kubeconfig.as_deref()).await?;
    let (cluster, name) = (&args.cluster, args.cluster.as_str());
    let Asked { serial, anew } = ask(&client, &args, labels).await?;
    let printed = async {
        let method = prepared(&client, cluster, serial, args.timeout).await?;
        let (token, until) = token::given(&client, cluster, args.ttl).await?;
        let kubeconfig = invitation::kubeconfig(&reached, cluster, serial, &method, &token);
        terminal::print(&shown(args.output, cluster, &kubeconfig)?)?;
        Ok(until)
    };
    let until = printed
        .await
        .map_err(|failure| not_printed(failure, cluster, serial, anew))?;
    terminal::tell(format_args!("cluster {name} is invited until {until}"));
    match args.auto_accept {
        true => terminal::tell(format_args!(
            "next: start its agent with what is printed: it is let in at once"
        )),
        false => terminal::tell(format_args!(
            "next: start its agent with what is printed, then: roundhouse accept {name}"
        )),
    }
    if reached.is_here_only() {
        terminal::tell(format_args!(
            "note: the agent is told to reach the hub at {}, which is this machine: --hub-url for another one",
            reached.url
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// An invitation that the Cluster says and that nobody has got yet.
#[derive(Debug)]
struct Asked {
    serial: u32,
    /// Whether the Cluster was there before: its agent's identity ends with what was written.
    anew: bool,
}

/// Writes the invitation into the Cluster, which ends what its agent was: only where a token can be given for it.
async fn ask(client: &Client, args: &Args, labels: BTreeMap<String, String>) -> Result<Asked, Failure> {
    let cluster = &args.cluster;
    let found = find(client, cluster).await?;
    let anew = found.is_some();
    if let Some(found) = &found {
        relabels_nothing(found, &labels)?;
    }
    token::tried(client, cluster, args.ttl).await?;
    let written = invited(client, cluster, found, labels, args).await?;
    Ok(Asked {
        serial: written.spec.serial,
        anew,
    })
}

/// A label that is new or has another value moves replicas, which `label` shows before it is written.
fn relabels_nothing(found: &Cluster, labels: &BTreeMap<String, String>) -> Result<(), Failure> {
    let (mut has, mut edits, mut overwrite) = (Vec::new(), Vec::new(), "");
    for (key, value) in labels {
        match found.labels().get(key) {
            Some(now) if now == value => continue,
            Some(now) => {
                has.push(format!("the value {now:?} of label {key}, not {value:?}"));
                overwrite = " --overwrite";
            }
            None => has.push(format!("no label {key}")),
        }
        edits.push(format!("{key}={value}"));
    }
    if edits.is_empty() {
        return Ok(());
    }
    let (name, has, edits) = (found.name_any(), has.join(", "), edits.join(" "));
    Err(Failure::new(
        "E-LABEL",
        format!("cluster {name} is there already, with other labels"),
    )
    .because(format!(
        "it has {has}; nothing was changed, and nobody is invited"
    ))
    .advise(format!(
        "roundhouse label {name} {edits}{overwrite}, which says first what would move; or join without them"
    )))
}

/// What failed when the invitation was written already.
fn not_printed(failure: Failure, cluster: &ClusterName, serial: u32, anew: bool) -> Failure {
    if !anew {
        return failure.then("the same command again");
    }
    failure
        .because(format!(
            "spec.serial of cluster {cluster} is {serial} now: the identity that its agent had until now ends, and nobody has the new invitation"
        ))
        .then("the same command again, and start the agent with what that prints: until then the cluster is not reached")
}

async fn find(client: &Client, cluster: &ClusterName) -> Result<Option<Cluster>, Failure> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let found = clusters
        .get_opt(cluster.as_str())
        .await
        .map_err(|error| hub::unreadable("Clusters", error))?;
    if found
        .as_ref()
        .is_some_and(|found| found.metadata.deletion_timestamp.is_some())
    {
        return Err(
            Failure::new("E-LEAVING", format!("cluster {cluster} is leaving")).advise(format!(
                "roundhouse leave {cluster} --force to forget what is left of it, then join again"
            )),
        );
    }
    Ok(found)
}

/// Writes the invitation into the Cluster.
async fn invited(
    client: &Client,
    cluster: &ClusterName,
    found: Option<Cluster>,
    labels: BTreeMap<String, String>,
    args: &Args,
) -> Result<Cluster, Failure> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let refused = |error| {
        let what = format!("cluster {cluster} was not invited");
        hub::unwritten(what, hub::AGAIN, "create,patch", error)
    };
    let now = server_time(&clusters).await.map_err(refused)?;
    let before = found.as_ref().map_or(0, |found| found.spec.serial);
    // By the seconds of the API server: higher than all that a Cluster of this name had before it left.
    let seconds = u32::try_from(now.as_second()).unwrap_or(u32::MAX);
    let serial = before.saturating_add(1).max(seconds);
    let until = now.checked_add(args.ttl).unwrap_or(Timestamp::MAX);
    let accepted = args.auto_accept || found.as_ref().is_some_and(|found| found.spec.accepted);
    let params = PostParams {
        field_manager: Some(hub::MANAGER.to_owned()),
        ..PostParams::default()
    };
    let Some(found) = found else {
        let mut new = Cluster::new(
            cluster.as_str(),
            ClusterSpec {
                accepted,
                auto_accept: args.auto_accept,
                serial,
                join_until: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(until)),
                ..ClusterSpec::default()
            },
        );
        new.metadata.labels = Some(labels).filter(|labels| !labels.is_empty());
        return clusters.create(&params, &new).await.map_err(refused);
    };
    let patch = json!({
        "metadata": {"resourceVersion": found.resource_version()},
        "spec": {"accepted": accepted, "autoAccept": args.auto_accept, "serial": serial, "joinUntil": until,
            "acceptedKey": null}});
    let patched = hub::patch_cluster(client, cluster.as_str(), &patch).await;
    patched.map_err(refused)
}

/// The time by the API server's clock, which the hub judges by: this machine's may be wrong.
async fn server_time(clusters: &Api<Cluster>) -> Result<Timestamp, Error> {
    let mut probe = Cluster::new("", ClusterSpec::default());
    probe.metadata.name = None;
    probe.metadata.generate_name = Some("time-".to_owned());
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = clusters.create(&dry, &probe).await?;
    Ok(made
        .metadata
        .creation_timestamp
        .map_or_else(|| SystemClock.now(), |time| time.0))
}

/// Waits until the hub has made the account of this invitation; what it gives its agents.
async fn prepared(
    client: &Client,
    cluster: &ClusterName,
    serial: u32,
    seconds: u64,
) -> Result<String, Failure> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &cluster.namespace());
    let look = async {
        loop {
            let found = accounts.get_opt(JOIN_ACCOUNT).await;
            let found = found.map_err(|error| hub::unreadable("ServiceAccounts", error))?;
            let annotations = found.as_ref().map(ResourceExt::annotations);
            let said = |key: &str| annotations.and_then(|annotations| annotations.get(key));
            if said(annotation::SERIAL) == Some(&serial.to_string()) {
                return Ok(said(annotation::IDENTITY)
                    .map_or("certificate", String::as_str)
                    .to_owned());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let Ok(found) = tokio::time::timeout(Duration::from_secs(seconds), look).await else {
        let failure = Failure::new(
            "E-TIMEOUT",
            format!("the hub has not prepared the invitation of cluster {cluster} in {seconds} s"),
        );
        let why = find(client, cluster).await.ok().flatten().and_then(|cluster| {
            let conditions = cluster.status?.conditions;
            let joined = conditions
                .into_iter()
                .find(|c| c.type_ == roundhouse_api::cluster::JOINED)?;
            Some(format!("{}: {}", joined.reason, joined.message))
        });
        let failure = match why {
            Some(why) => failure.because(why),
            None => failure,
        };
        return Err(failure.advise("check that a hub runs (roundhouse serve)"));
    };
    found
}

/// One command of a shell, whose arguments everybody on the machine may see: the invitation is none of them (an assignment before a
/// command is not, nor what a shell prints by itself).
fn shown(shape: Shape, cluster: &ClusterName, kubeconfig: &Value) -> Result<String, Failure> {
    let yaml = |value: &Value| {
        serde_saphyr::to_string(value)
            .map_err(|error| Failure::new("E-OUTPUT", "the invitation cannot be printed").because(error))
    };
    let word = invitation::word(kubeconfig);
    Ok(match shape {
        Shape::Command => format!(
            "ROUNDHOUSE_INVITATION={word} roundhouse-agent --cluster {cluster} --identity-dir roundhouse-agent-{cluster}\n"
        ),
        // A name may look like a number, which Helm would make one of it.
        Shape::Helm => format!(
            "printf 'invitation: %s\\n' {word} | helm install roundhouse-agent charts/agent --namespace roundhouse-system --create-namespace --set-string cluster={cluster} --values -\n"
        ),
        Shape::Manifest => yaml(&json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "roundhouse-agent-invitation", "namespace": "roundhouse-system"},
            "type": "Opaque",
            "stringData": {"kubeconfig": kubeconfig.to_string()},
        }))?,
        Shape::Kubeconfig => yaml(kubeconfig)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
    use roundhouse_apiserver::{Identity, Server, TokenKey};

    #[test]
    fn times_are_from_ten_minutes_to_thirty_days() {
        for (text, seconds) in [
            ("10m", 600),
            ("1h", 3_600),
            ("1h30m", 5_400),
            ("7d", 604_800),
            ("30d", 2_592_000),
        ] {
            assert_eq!(ttl(text).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["9m", "31d", "0d", "-1h", "", "soon", "1", "d"] {
            assert!(ttl(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_are_sent_to_https_only() {
        assert!(url("https://hub:6443").is_ok());
        for text in ["http://hub:6443", "hub:6443", "https://", "https://a b"] {
            assert!(url(text).is_err(), "{text}");
        }
    }

    /// A hub that has the cluster c1, whose agent was let in by serial 3; jane may write Clusters, and nothing else.
    async fn hub(tokens: bool) -> (Server, Api<Cluster>) {
        let server = Server::builder().rbac();
        let server = match tokens {
            true => server.tokens(TokenKey::generate().unwrap()),
            false => server,
        };
        let server = server.build();
        let admin = Client::new(server.service_as(Some(Identity::admin())), "default");
        let options = crate::run::HubOptions::default();
        crate::run::install(&admin, &options).await.unwrap();
        let params = PostParams::default();
        let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": "inviting"}, "rules": [
            {"apiGroups": ["roundhouse.dev"], "resources": ["clusters"], "verbs": ["*"]}]}))
        .unwrap();
        let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": "inviting"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "inviting"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]}))
        .unwrap();
        Api::all(admin.clone()).create(&params, &role).await.unwrap();
        Api::all(admin.clone()).create(&params, &binding).await.unwrap();
        let spec = ClusterSpec {
            accepted: true,
            serial: 3,
            ..ClusterSpec::default()
        };
        let clusters: Api<Cluster> = Api::all(admin);
        clusters.create(&params, &Cluster::new("c1", spec)).await.unwrap();
        (server, clusters)
    }

    fn args(cluster: &str) -> Args {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: Args,
        }
        <Line as clap::Parser>::parse_from(["join", cluster]).args
    }

    #[tokio::test]
    async fn where_no_token_is_given_a_cluster_stays_as_it_is() {
        for (tokens, who, advice) in [
            (
                false,
                Identity::admin(),
                "the hub gives no tokens of ServiceAccounts",
            ),
            (
                true,
                Identity::new("jane", ["system:authenticated"]),
                "kubectl auth can-i create serviceaccounts/roundhouse-join --subresource=token -n cluster-c1",
            ),
        ] {
            let (server, clusters) = hub(tokens).await;
            let client = Client::new(server.service_as(Some(who)), "default");
            let failure = ask(&client, &args("c1"), BTreeMap::new())
                .await
                .unwrap_err()
                .to_string();
            for part in [
                "invite cluster c1 with",
                "[E-TOKEN]",
                "nothing was changed",
                advice,
            ] {
                assert!(failure.contains(part), "{part:?} is missing in\n{failure}");
            }
            assert_eq!(clusters.get("c1").await.unwrap().spec.serial, 3);
            assert!(ask(&client, &args("c2"), BTreeMap::new()).await.is_err());
            assert!(clusters.get_opt("c2").await.unwrap().is_none());
        }
    }

    #[tokio::test]
    async fn where_a_token_can_be_given_the_serial_grows_and_a_failure_says_so() {
        let (server, clusters) = hub(true).await;
        let client = Client::new(server.service_as(Some(Identity::admin())), "default");
        let asked = ask(&client, &args("c1"), BTreeMap::new()).await.unwrap();
        assert!(asked.serial > 3 && asked.anew, "{asked:?}");
        assert_eq!(clusters.get("c1").await.unwrap().spec.serial, asked.serial);
        let cluster = ClusterName::new("c1").unwrap();
        // No hub runs here.
        let silent = prepared(&client, &cluster, asked.serial, 0).await.unwrap_err();
        let failure = not_printed(silent, &cluster, asked.serial, asked.anew).to_string();
        let serial = format!("spec.serial of cluster c1 is {} now: the identity", asked.serial);
        for part in [
            serial.as_str(),
            "check that a hub runs (roundhouse serve), then the same command again, and start",
        ] {
            assert!(failure.contains(part), "{part:?} is missing in\n{failure}");
        }
        let asked = ask(&client, &args("c2"), BTreeMap::new()).await.unwrap();
        assert!(!asked.anew);
        let failure = not_printed(Failure::new("E-X", "x"), &cluster, asked.serial, asked.anew).to_string();
        assert_eq!(failure, "error: x [E-X]\ntry:   the same command again");
    }

    #[tokio::test]
    async fn labels_of_a_cluster_that_is_there_change_by_the_label_verb_only() {
        let (server, clusters) = hub(true).await;
        let client = Client::new(server.service_as(Some(Identity::admin())), "default");
        let labels = json!({"metadata": {"labels": {"region": "west"}}});
        super::hub::patch_cluster(&client, "c1", &labels).await.unwrap();
        let asked = async |cluster: &str, labels: &[&str]| {
            let labels: Vec<String> = labels.iter().map(ToString::to_string).collect();
            ask(&client, &args(cluster), super::labels(&labels)?).await
        };
        for (labels, says) in [
            (
                ["region=east"].as_slice(),
                "error: cluster c1 is there already, with other labels [E-LABEL]\n\
                 cause: it has the value \"west\" of label region, not \"east\"; nothing was changed, and nobody is invited\n\
                 try:   roundhouse label c1 region=east --overwrite, which says first what would move; or join without them",
            ),
            (
                &["region=west", "tier=gold", "zone=a"],
                "error: cluster c1 is there already, with other labels [E-LABEL]\n\
                 cause: it has no label tier, no label zone; nothing was changed, and nobody is invited\n\
                 try:   roundhouse label c1 tier=gold zone=a, which says first what would move; or join without them",
            ),
            (
                &["region-"],
                "error: a label is not understood [E-LABEL]\n\
                 cause: region- removes a label, and join removes none\n\
                 try:   --label KEY=VALUE",
            ),
        ] {
            let failure = asked("c1", labels).await.unwrap_err();
            assert_eq!(failure.to_string(), says);
            let found = clusters.get("c1").await.unwrap();
            assert_eq!((found.spec.serial, found.labels().len()), (3, 1));
        }
        asked("c1", &["region=west"]).await.unwrap();
        for illegal in [
            ["=west", "a=b"],
            ["a b=west", "a=b"],
            ["a=1", "a=2"],
            ["a=b c", "b=c"],
        ] {
            asked("c2", &illegal).await.unwrap_err();
        }
        assert!(clusters.get_opt("c2").await.unwrap().is_none());
        asked("c2", &["tier=gold", "region=east"]).await.unwrap();
        assert_eq!(clusters.get("c2").await.unwrap().labels().len(), 2);
    }

    #[test]
    fn what_is_printed_starts_an_agent() {
        let cluster = ClusterName::new("c1").unwrap();
        let invitation = json!({"kind": "Config"});
        let of = |shape| shown(shape, &cluster, &invitation).unwrap();
        let word = invitation::word(&invitation);
        assert_eq!(
            of(Shape::Command),
            format!(
                "ROUNDHOUSE_INVITATION={word} roundhouse-agent --cluster c1 --identity-dir roundhouse-agent-c1\n"
            )
        );
        let helm = of(Shape::Helm);
        assert!(
            helm.starts_with(&format!("printf 'invitation: %s\\n' {word} | helm install ")),
            "{helm}"
        );
        assert!(helm.ends_with(" --set-string cluster=c1 --values -\n"), "{helm}");
        let secret: Value = serde_saphyr::from_str(&of(Shape::Manifest)).unwrap();
        assert_eq!(secret["kind"], "Secret");
        assert_eq!(secret["metadata"]["namespace"], "roundhouse-system");
        let kubeconfig = secret["stringData"]["kubeconfig"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(kubeconfig).unwrap(), invitation);
        assert!(of(Shape::Kubeconfig).contains("kind: Config"));
    }
}
