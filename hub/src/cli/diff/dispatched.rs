//! What the hub dispatched: the parts of the application on the cluster, and how its agent works.

use super::Subject;
use crate::{
    cli::{
        Failure,
        hub::{listed, no_cluster, own_labels, unreadable},
    },
    cluster,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt, api::ListParams};
use roundhouse_agent::preview::Part;
use roundhouse_api::{
    application::{ACCEPTED, Application},
    bundle::{ApplyOnce, Bundle},
    cluster::{Cluster, ClusterReport},
    condition,
    names::{AGENT_LEASE, annotation, bundle_name, cluster_of_namespace, label},
};

/// What the hub knows.
pub(super) struct Found {
    pub(super) hub_id: String,
    pub(super) parts: Vec<Part>,
    /// Absent if the agent has not reported it.
    pub(super) apply_once: Option<ApplyOnce>,
}

/// Finds the parts of an application on a cluster.
pub(super) async fn find(hub: &Client, subject: &Subject) -> Result<Found, Failure> {
    let space = subject.cluster.namespace();
    let bundles: Api<Bundle> = Api::namespaced(hub.clone(), &space);
    let labels = own_labels(&subject.namespace, &subject.application);
    let listed = bundles.list(&ListParams::default().labels(&labels)).await;
    let mut items = listed
        .map_err(|error| unreadable("the Bundles of the cluster", error))?
        .items;
    if items.is_empty() {
        // One that was written by hand has no labels.
        let name = bundle_name(&subject.namespace, &subject.application, 1);
        let by_hand = bundles.get_opt(&name).await;
        items.extend(by_hand.map_err(|error| unreadable("the Bundles of the cluster", error))?);
    }
    if items.is_empty() {
        return Err(missing(hub, subject).await);
    }
    items.sort_by_cached_key(|bundle| part_number(&bundle.name_any()));
    Ok(Found {
        hub_id: hub_id(hub, &space).await?,
        parts: items.into_iter().map(part).collect(),
        apply_once: apply_once(hub, subject).await,
    })
}

fn part(bundle: Bundle) -> Part {
    let counts = bundle.status.as_ref().and_then(|status| status.counts);
    Part {
        name: bundle.name_any(),
        uid: bundle.uid().unwrap_or_default(),
        generation: bundle.metadata.generation.unwrap_or(0),
        deleting: bundle.metadata.deletion_timestamp.is_some(),
        applied: counts.is_some_and(|counts| counts.applied > 0),
        spec: bundle.spec,
    }
}

/// The `2` of `default.web.2`; the first part has no number.
fn part_number(bundle: &str) -> u32 {
    bundle
        .split('.')
        .nth(2)
        .and_then(|number| number.parse().ok())
        .unwrap_or(1)
}

/// The hub's id: from the Lease of the cluster, which its agent may read too, or from where it comes from.
async fn hub_id(hub: &Client, space: &str) -> Result<String, Failure> {
    let leases: Api<Lease> = Api::namespaced(hub.clone(), space);
    if let Ok(lease) = leases.get(AGENT_LEASE).await
        && let Some(id) = lease.annotations().get(annotation::HUB_ID)
    {
        return Ok(id.clone());
    }
    cluster::hub_id(hub)
        .await
        .map_err(|error| unreadable("its namespace kube-system", error))
}

/// Only a refinement: whoever may not read it gets the rest.
async fn apply_once(hub: &Client, subject: &Subject) -> Option<ApplyOnce> {
    let reports: Api<ClusterReport> = Api::namespaced(hub.clone(), &subject.cluster.namespace());
    reports.get(subject.cluster.as_str()).await.ok()?.spec.apply_once
}

/// Why there is no Bundle: no such cluster, no such application, or not placed there.
async fn missing(hub: &Client, subject: &Subject) -> Failure {
    let Subject {
        namespace,
        application,
        cluster,
    } = subject;
    let clusters: Api<Cluster> = Api::all(hub.clone());
    if let Ok(None) = clusters.get_opt(cluster.as_str()).await {
        let there = clusters.list(&ListParams::default()).await;
        let names: Vec<String> = there
            .into_iter()
            .flatten()
            .map(|cluster| cluster.name_any())
            .collect();
        return no_cluster(cluster.as_str(), &names, "--cluster with one of them");
    }
    let applications: Api<Application> = Api::namespaced(hub.clone(), namespace);
    let found = applications.get_opt(application).await;
    if let Ok(None) = found {
        return Failure::new(
            "E-APPLICATION",
            format!("there is no application {namespace}/{application}"),
        )
        .because(format!(
            "namespace {namespace} of the hub has no Application of this name"
        ))
        .advise("kubectl get applications -A, and --namespace");
    }
    let labels = own_labels(namespace, application);
    let bundles: Api<Bundle> = Api::all(hub.clone());
    let elsewhere = bundles
        .list_metadata(&ListParams::default().labels(&labels))
        .await;
    let mut names: Vec<String> = (elsewhere.into_iter().flatten())
        .filter_map(|bundle| Some(cluster_of_namespace(&bundle.namespace()?)?.to_owned()))
        .collect();
    names.sort();
    names.dedup();
    let cause = if names.is_empty() {
        "it has a Bundle on no cluster".to_owned()
    } else {
        format!("it has Bundles on {}", listed(&names))
    };
    let failure = Failure::new(
        "E-NOT-PLACED",
        format!("application {namespace}/{application} has no Bundle on cluster {cluster}"),
    )
    .because(cause);
    match found.ok().flatten().as_ref().and_then(not_accepted) {
        // Nothing is decided for it, so that there is no Decision to look at.
        Some(why) => failure.because(why).advise(format!(
            "kubectl -n {namespace} get application {application} -o yaml shows all that is wrong with it; correct it"
        )),
        None => failure.advise(format!(
            "kubectl -n {namespace} get decisions -l {}={application}",
            label::APP_NAME
        )),
    }
}

/// Why the hub does not act on an application as it is now, if so.
fn not_accepted(application: &Application) -> Option<String> {
    let status = application.status.as_ref()?;
    let accepted = condition::get(&status.conditions, ACCEPTED)?;
    let says_no =
        accepted.status == "False" && accepted.observed_generation == application.metadata.generation;
    says_no.then(|| {
        format!(
            "the application is not accepted as it is: {}: {}",
            accepted.reason, accepted.message
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_is_not_accepted_says_why_and_an_older_verdict_does_not_count() {
        let application = |generation: i64, status: &str| -> Application {
            let object = serde_json::json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                "metadata": {"name": "web", "namespace": "shop", "generation": generation},
                "spec": {"components": []},
                "status": {"conditions": [{"type": "Accepted", "status": status, "reason": "Invalid",
                    "message": "spec.components: name one", "observedGeneration": 2,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
            serde_json::from_value(object).unwrap()
        };
        assert_eq!(
            not_accepted(&application(2, "False")).as_deref(),
            Some("the application is not accepted as it is: Invalid: spec.components: name one")
        );
        assert_eq!(not_accepted(&application(3, "False")), None);
        assert_eq!(not_accepted(&application(2, "True")), None);
    }

    #[test]
    fn parts_are_in_their_order() {
        let mut names = vec!["default.web.10", "default.web.2", "default.web"];
        names.sort_by_key(|name| part_number(name));
        assert_eq!(names, ["default.web", "default.web.2", "default.web.10"]);
    }
}
