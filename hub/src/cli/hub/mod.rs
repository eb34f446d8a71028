//! The hub as the verbs see it: a client, what it has, and how it fails.

mod heard;
mod reader;

pub(super) use heard::heard;
pub(super) use reader::Reader;

use super::{Failure, kubeconfig};
use crate::{application::Snapshot, words};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use roundhouse_api::{cluster::Cluster, names::label};
use serde_json::Value;
use std::{collections::BTreeSet, path::Path};

/// Field manager of what the verbs write.
pub(super) const MANAGER: &str = "roundhouse";
/// What to do where somebody else was quicker, and what is seen changes nothing for others.
pub(super) const AGAIN: &str = "the same command again: somebody changed the cluster meanwhile";
/// The same where what would move was shown.
pub(super) const LOOK_AGAIN: &str =
    "the same command again: somebody changed the cluster meanwhile, and other things may move now";

/// Names that an error lists at most.
const NAMES: usize = 8;

/// What a hub has.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// All of it, as the controller sees it.
    pub(super) snapshot: Snapshot,
    /// The clusters, sorted by name.
    pub(super) clusters: Vec<Cluster>,
    /// Namespace and name of the Applications that are not being deleted, sorted.
    pub(super) applications: Vec<(String, String)>,
}

/// A client for the hub.
///
/// # Errors
/// The kubeconfig cannot be used, or nothing answers there.
pub(super) async fn connect(file: Option<&Path>) -> Result<Client, Failure> {
    reach("hub", "E-HUB", file).await
}

/// A client for the API server of a cluster.
///
/// # Errors
/// As [`connect`].
pub(super) async fn connect_member(file: &Path) -> Result<Client, Failure> {
    reach("cluster", "E-MEMBER", Some(file)).await
}

/// What a verb then asks for may fail in many places, and none of them knows the address: so it is tried here.
async fn reach(what: &str, code: &'static str, file: Option<&Path>) -> Result<Client, Failure> {
    let config = kubeconfig::config(file).await?;
    let address = config.cluster_url.to_string();
    let client = Client::try_from(config).map_err(|error| {
        let name = file.map_or_else(|| "the kubeconfig".to_owned(), |file| file.display().to_string());
        Failure::new("E-KUBECONFIG", format!("{name} cannot be used"))
            .because(error)
            .advise("kubectl with this kubeconfig, to see what it says")
    })?;
    let silent = || {
        let (address, file) = (address.trim_end_matches('/'), kubeconfig::title(file));
        Failure::new(
            code,
            format!("the {what} at {address} (kubeconfig {file}) does not answer"),
        )
        .advise(format!(
            "check that it runs, and that {address} is reached from here; another kubeconfig if that is not its address"
        ))
    };
    match client.apiserver_version().await {
        // Not its text, which says no more than where in this program it was.
        Err(Error::Service(error)) => Err(silent().because(error)),
        Err(error @ Error::HyperError(_)) => Err(silent().because(error)),
        // Whatever it says: it is there.
        Ok(_) | Err(_) => Ok(client),
    }
}

/// Whether this is the embedded API server, as far as it says so.
pub(super) async fn is_embedded(client: &Client) -> bool {
    let version = client.apiserver_version().await;
    version.is_ok_and(|version| version.git_version.ends_with("+roundhouse"))
}

/// Reads clusters, Applications, their revisions, Placements, Decisions and Bundles.
///
/// # Errors
/// A list is refused; the message names the kind.
pub(super) async fn read(client: &Client) -> Result<Known, Failure> {
    let known = read_decided(client).await?;
    let (hub, snapshot) = (Reader(client), &known.snapshot);
    hub.revisions(None, None, |revision| snapshot.put_revision(revision))
        .await?;
    hub.bundles(None, |bundle| snapshot.put_bundle(bundle)).await?;
    Ok(known)
}

/// Reads what one application has of its own into a snapshot: its revisions and its Bundles.
///
/// # Errors
/// A list is refused; the message names the kind.
pub(super) async fn read_own(
    client: &Client,
    snapshot: &Snapshot,
    namespace: &str,
    name: &str,
) -> Result<(), Failure> {
    let labels = own_labels(namespace, name);
    let hub = Reader(client);
    hub.revisions(Some(namespace), Some(&labels), |revision| {
        snapshot.put_revision(revision);
    })
    .await?;
    hub.bundles(Some(&labels), |bundle| snapshot.put_bundle(bundle))
        .await
}

/// The label selector of what belongs to an application.
pub(super) fn own_labels(namespace: &str, name: &str) -> String {
    format!("{}={name},{}={namespace}", label::APP_NAME, label::APP_NAMESPACE)
}

/// Reads clusters, Applications, Placements and Decisions: what says where everything is meant to be.
///
/// # Errors
/// A list is refused; the message names the kind.
pub(super) async fn read_decided(client: &Client) -> Result<Known, Failure> {
    let hub = Reader(client);
    let mut known = Known::default();
    hub.applications(None, |application| {
        if application.metadata.deletion_timestamp.is_none() {
            let namespace = application.namespace().unwrap_or_default();
            known.applications.push((namespace, application.name_any()));
        }
        known.snapshot.put_application(application);
    })
    .await?;
    known.applications.sort();
    hub.clusters(|cluster| {
        known.snapshot.put_cluster(&cluster);
        known.clusters.push(cluster);
    })
    .await?;
    known.clusters.sort_by_cached_key(ResourceExt::name_any);
    let snapshot = &known.snapshot;
    hub.placements(None, |placement| snapshot.put_placement(placement))
        .await?;
    hub.definitions(|_, definition| {
        if let Some(definition) = definition {
            snapshot.put_definition(&definition);
        }
    })
    .await?;
    hub.decisions(None, |decision| snapshot.put_decision(decision))
        .await?;
    Ok(known)
}

/// The names of the clusters that a label selector of Kubernetes matches.
///
/// # Errors
/// The hub refuses, the selector for one.
pub(super) async fn selected(client: &Client, selector: &str) -> Result<BTreeSet<String>, Failure> {
    let clusters = Api::<Cluster>::all(client.clone());
    let matched = clusters
        .list_metadata(&ListParams::default().labels(selector))
        .await;
    let matched = matched.map_err(|error| {
        refused(
            Failure::new(
                "E-SELECTOR",
                format!("no clusters can be selected by {selector:?}"),
            ),
            error,
        )
        .advise("a label selector as kubectl get -l takes it, such as region=east or 'tier notin (lab)'")
    })?;
    Ok(matched.items.iter().map(ResourceExt::name_any).collect())
}

/// There is no such cluster.
pub(super) fn no_cluster(name: &str, there: &[String], advice: &str) -> Failure {
    let failure = Failure::new("E-CLUSTER", format!("there is no cluster {name}"));
    match there.is_empty() {
        true => failure
            .because("there are no clusters at all")
            .advise("another --kubeconfig, of the right hub"),
        false => failure
            .because(format!("the clusters are {}", listed(there)))
            .advise(advice),
    }
}

/// Names in a line; a long list says how many more there are.
pub(super) fn listed(names: &[String]) -> String {
    words::listed(names, NAMES)
}

/// The hub did not answer as it should.
pub(super) fn unreadable(what: &str, error: Error) -> Failure {
    let failure = Failure::new("E-HUB", format!("the hub cannot be read: {what}"));
    if is_unknown(&error) {
        return failure
            .because("this API server does not know them: it is no hub, or none has ever run on it")
            .advise("--kubeconfig F of the hub; roundhouse crds prints what a hub has to know");
    }
    refused(failure, error).advise(
        "kubectl get clusters,applications,bundles -A with the same kubeconfig; --kubeconfig F if it is the wrong one",
    )
}

/// Merges a patch into a Cluster, as the verbs write.
///
/// # Errors
/// The hub refuses it: [`unwritten`] tells people.
pub(super) async fn patch_cluster(client: &Client, name: &str, patch: &Value) -> Result<Cluster, Error> {
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let clusters: Api<Cluster> = Api::all(client.clone());
    clusters.patch(name, &params, &Patch::Merge(patch)).await
}

/// Whether a list failed because the kind is not known there.
pub(super) fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::Api(answer) if answer.code == 404)
}

/// A failure with what the hub says.
pub(super) fn refused(failure: Failure, error: Error) -> Failure {
    match error {
        // Its own text adds the whole answer as a debug print.
        Error::Api(answer) => failure.because(answer.message),
        error => failure.because(error),
    }
}

/// A write that the hub refused: somebody else was quicker, which `again` says what to do about, or it may not be. `verbs` on
/// clusters are what it takes.
pub(super) fn unwritten(what: String, again: &'static str, verbs: &str, error: Error) -> Failure {
    if matches!(&error, Error::Api(answer) if answer.code == 409) {
        return refused(Failure::new("E-CONFLICT", what), error).advise(again);
    }
    refused(Failure::new("E-HUB", what), error).advise(format!(
        "kubectl auth can-i {verbs} clusters with the same kubeconfig"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_hub_that_does_not_answer_is_named_with_its_address() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("hub.kubeconfig");
        let config = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]});
        std::fs::write(&file, config.to_string()).unwrap();
        let failure = connect(Some(&file)).await.err().unwrap().to_string();
        let start = format!(
            "error: the hub at https://127.0.0.1:1 (kubeconfig {}) does not answer [E-HUB]\ncause: ",
            file.display()
        );
        assert!(failure.starts_with(&start), "{failure}");
        assert!(failure.contains("refused"), "{failure}");
        let failure = connect_member(&file).await.err().unwrap().to_string();
        assert!(
            failure.starts_with("error: the cluster at https://127.0.0.1:1 "),
            "{failure}"
        );
    }

    #[test]
    fn a_server_that_knows_no_kind_of_ours_is_no_hub() {
        let answer = kube::core::Status::failure("404 page not found", "NotFound").with_code(404);
        let failure = unreadable("Bundles", Error::Api(answer.boxed())).to_string();
        assert!(
            failure.starts_with(
                "error: the hub cannot be read: Bundles [E-HUB]\ncause: this API server does not know them: it is no hub"
            ),
            "{failure}"
        );
    }

    #[test]
    fn an_answer_of_the_hub_is_its_message() {
        let answer = kube::core::Status::failure("bundles are not known here", "NotFound");
        let failure = unreadable("Bundles", Error::Api(answer.boxed()));
        assert_eq!(
            failure.to_string(),
            "error: the hub cannot be read: Bundles [E-HUB]\n\
             cause: bundles are not known here\n\
             try:   kubectl get clusters,applications,bundles -A with the same kubeconfig; --kubeconfig F if it is the wrong one"
        );
        let failure = failure.or_try("--inventory F to plan without a hub").to_string();
        assert!(
            failure.ends_with("if it is the wrong one; or --inventory F to plan without a hub"),
            "{failure}"
        );
    }
}
