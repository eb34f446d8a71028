//! Whether what the hub has written fits together at the end: what users want, what was decided, and what is in the Bundles.

use crate::simulate::{Fleet, monitor::Monitor, raw};
use kube::{Api, ResourceExt};
use roundhouse_api::{
    application::{Application, validate},
    bundle::Bundle,
    cluster::Cluster,
    decision::{Decision, WorkloadRef},
    names::{cluster_of_namespace, step_of_bundle},
    placement::Placement,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is on the hub.
#[derive(Debug, Default)]
struct Hub {
    applications: Vec<Application>,
    decisions: Vec<Decision>,
    bundles: Vec<Bundle>,
    /// Clusters that are there.
    clusters: BTreeSet<String>,
    /// Whether anything changes manifests on their way.
    overrides: bool,
    /// Bundles that a request has made late or once more, by namespace and name: one of an application that is gone by then is held.
    late: BTreeSet<(String, String)>,
}

/// What does not fit together.
pub(super) async fn incoherent(fleet: &Fleet, monitor: &Monitor) -> Result<Vec<String>, String> {
    let (client, all) = (fleet.hub_client(), Default::default());
    let failed = |error: kube::Error| error.to_string();
    let applications = Api::<Application>::all(client.clone()).list(&all).await;
    let decisions = Api::<Decision>::all(client.clone()).list(&all).await;
    let bundles = Api::<Bundle>::all(client.clone()).list(&all).await;
    let clusters = Api::<Cluster>::all(client.clone()).list(&all).await;
    let placements = Api::<Placement>::all(client).list(&all).await;
    let hub = Hub {
        applications: applications.map_err(failed)?.items,
        decisions: decisions.map_err(failed)?.items,
        bundles: bundles.map_err(failed)?.items,
        clusters: clusters
            .map_err(failed)?
            .iter()
            .map(ResourceExt::name_any)
            .collect(),
        overrides: !placements.map_err(failed)?.items.is_empty(),
        late: monitor.late_bundles(),
    };
    Ok(hub.differences())
}

impl Hub {
    /// Pure.
    fn differences(&self) -> Vec<String> {
        let applications = self.applications.iter().flat_map(|application| {
            let own = self.own(application);
            let decisions = self.decided(application);
            let status = application.status.as_ref();
            // What waits to be confirmed is placed nowhere, and stays.
            let held = status.and_then(|status| status.held_deletes.as_ref()).is_some();
            let placed = placed(&own, &decisions, &self.clusters, held);
            let raw = match self.overrides {
                true => Vec::new(),
                false => as_written(application, &own),
            };
            placed.into_iter().chain(raw).collect::<Vec<_>>()
        });
        let left = self.bundles.iter().filter(|bundle| {
            let name = (bundle.namespace().unwrap_or_default(), bundle.name_any());
            !self.late.contains(&name)
        });
        let left = left.filter_map(|bundle| {
            let of = bundle.spec.application_ref.as_ref()?;
            let is_there = |application: &&Application| application.uid().as_deref() == Some(&of.uid);
            let gone = !self.applications.iter().any(|application| is_there(&application));
            gone.then(|| {
                format!(
                    "{} is of {}/{}, which is not there",
                    named(bundle),
                    of.namespace,
                    of.name
                )
            })
        });
        applications.chain(left).collect()
    }

    /// The Bundles of an application, without those of single steps and those that go.
    fn own(&self, application: &Application) -> Vec<&Bundle> {
        let own = self.bundles.iter().filter(|bundle| {
            let of = bundle.spec.application_ref.as_ref();
            of.is_some_and(|of| Some(&of.uid) == application.uid().as_ref())
                && step_of_bundle(&bundle.name_any()).is_none()
                && bundle.spec.deletion.is_none()
        });
        own.collect()
    }

    /// The Decisions of what an application delivers.
    fn decided(&self, application: &Application) -> Vec<&Decision> {
        let workflow = application.status.as_ref().and_then(|s| s.workflow.as_ref());
        let revision = workflow.and_then(|workflow| workflow.app_revision.as_deref());
        let own = self.decisions.iter().filter(|decision| {
            Some(&decision.spec.application_ref.uid) == application.uid().as_ref()
                && Some(decision.spec.revision.as_str()) == revision
        });
        own.collect()
    }
}

fn named(bundle: &Bundle) -> String {
    format!(
        "bundle {}/{}",
        bundle.namespace().unwrap_or_default(),
        bundle.name_any()
    )
}

fn cluster_of(bundle: &Bundle) -> Option<String> {
    cluster_of_namespace(&bundle.namespace()?).map(str::to_owned)
}

/// Every Bundle is placed by a Decision unless removals are `held`, every Decision has its Bundles, and they have the replicas that
/// were decided.
fn placed(
    bundles: &[&Bundle],
    decisions: &[&Decision],
    clusters: &BTreeSet<String>,
    held: bool,
) -> Vec<String> {
    let mut differ = Vec::new();
    let mut replicas: BTreeMap<(&str, &WorkloadRef), u64> = BTreeMap::new();
    for decision in decisions {
        for workload in &decision.spec.workloads {
            for assigned in &workload.clusters {
                let of = replicas.entry((&assigned.name, &workload.workload)).or_default();
                *of += u64::from(assigned.replicas);
            }
        }
        let there = decision
            .spec
            .clusters
            .iter()
            .filter(|cluster| clusters.contains(*cluster));
        for cluster in there {
            if !bundles.iter().any(|b| cluster_of(b).as_ref() == Some(cluster)) {
                differ.push(format!(
                    "{} places {cluster}, which has no Bundle",
                    decision.name_any()
                ));
            }
        }
    }
    for bundle in bundles {
        let cluster = cluster_of(bundle).unwrap_or_default();
        let is_placed = decisions.iter().any(|d| d.spec.clusters.contains(&cluster));
        if !is_placed && !held {
            differ.push(format!("{} is placed by no Decision", named(bundle)));
        }
    }
    let workloads: BTreeSet<&WorkloadRef> = replicas.keys().map(|(_, workload)| *workload).collect();
    let placed = |cluster: &String| decisions.iter().any(|d| d.spec.clusters.contains(cluster));
    let have: BTreeSet<String> = bundles
        .iter()
        .filter_map(|b| cluster_of(b))
        .filter(placed)
        .collect();
    for cluster in &have {
        let own = bundles.iter().filter(|b| cluster_of(b).as_ref() == Some(cluster));
        let manifests: Vec<&Value> = own.flat_map(|b| &b.spec.workload.manifests).collect();
        // What is not divided has no number that was decided.
        for workload in workloads
            .iter()
            .filter(|workload| raw::is_divided(&workload.kind))
        {
            let decided = replicas.get(&(cluster.as_str(), *workload)).copied().unwrap_or(0);
            let manifest = manifests.iter().find(|manifest| raw::is_of(manifest, workload));
            let is = match manifest {
                Some(manifest) => raw::replicas(manifest),
                None => Some(0),
            };
            if is != Some(decided) {
                let is = is.map_or("not a number of".to_owned(), |is| is.to_string());
                differ.push(format!(
                    "{cluster} gets {is} replicas of {}, and {decided} were decided",
                    workload.name
                ));
            }
        }
    }
    differ
}

/// What an application says as it is to be applied is in its Bundles.
fn as_written(application: &Application, bundles: &[&Bundle]) -> Vec<String> {
    let spec = serde_json::to_value(&application.spec).unwrap_or_default();
    // One that is refused is told to wait.
    let Ok(valid) = validate(&spec) else {
        return Vec::new();
    };
    let mut by_cluster: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for bundle in bundles {
        let manifests = bundle.spec.workload.manifests.iter();
        by_cluster
            .entry(cluster_of(bundle).unwrap_or_default())
            .or_default()
            .extend(manifests);
    }
    let namespace = application.namespace().unwrap_or_default();
    let everywhere = raw::everywhere(&namespace, &application.name_any(), &valid);
    let mut differ = Vec::new();
    for (cluster, manifests) in &by_cluster {
        let lacks = raw::unlike(&everywhere, || manifests.iter().copied());
        differ.extend(lacks.map(|why| format!("{cluster}: of {}: {why}", application.name_any())));
    }
    differ
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hub() -> Hub {
        let application = json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default", "uid": "a"},
            "spec": {"components": [{"name": "web", "type": "k8s-objects", "properties": {"objects": [
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"k": "1"}},
                {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 5}}]}}],
                "workflow": {"steps": [
                    {"name": "all", "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}}]}},
            "status": {"workflow": {"appRevision": "web-v1", "generation": 1, "steps": []}}});
        let assigned = |name: &str, replicas: u32| json!({"name": name, "rule": "r", "replicas": replicas});
        let decision = json!({
            "apiVersion": "roundhouse.dev/v1alpha1", "kind": "Decision",
            "metadata": {"name": "web-all", "namespace": "default"},
            "spec": {"applicationRef": {"namespace": "default", "name": "web", "uid": "a"}, "step": "all",
                "revision": "web-v1", "epoch": 1, "hash": "h", "satisfied": true, "replicas": 5, "placed": 5,
                "unplaced": 0, "clusterCount": 2, "clusters": ["c1", "c2"], "workloads": [{
                    "workload": {"kind": "Deployment", "namespace": "default", "name": "web"},
                    "replicas": 5, "placed": 5, "unplaced": [], "clusters": [assigned("c1", 3), assigned("c2", 2)]}]}});
        let valid = validate(&application["spec"]).unwrap();
        let bundle = |cluster: &str, replicas: u32| {
            let all = raw::everywhere("default", "web", &valid).into_iter();
            let mut manifests: Vec<Value> = all.map(|one| one.manifest).collect();
            manifests
                .iter_mut()
                .for_each(|manifest| manifest["metadata"]["namespace"] = json!("default"));
            manifests[1]["spec"]["replicas"] = json!(replicas);
            json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
                "metadata": {"name": "default.web", "namespace": format!("cluster-{cluster}")},
                "spec": {"applicationRef": {"namespace": "default", "name": "web", "uid": "a"},
                    "workload": {"manifests": manifests}}})
        };
        Hub {
            applications: vec![serde_json::from_value(application).unwrap()],
            decisions: vec![serde_json::from_value(decision).unwrap()],
            bundles: [bundle("c1", 3), bundle("c2", 2)]
                .map(|bundle| serde_json::from_value(bundle).unwrap())
                .into(),
            clusters: ["c1", "c2"].map(str::to_owned).into(),
            overrides: false,
            late: BTreeSet::new(),
        }
    }

    #[test]
    fn what_was_decided_is_in_the_bundles_and_nothing_else() {
        assert_eq!(hub().differences(), Vec::<String>::new());

        let mut more = hub();
        more.bundles[0].spec.workload.manifests[1]["spec"]["replicas"] = json!(4);
        let expected = "c1 gets 4 replicas of web, and 3 were decided";
        assert_eq!(more.differences(), [expected]);
        more.bundles[0].spec.workload.manifests.remove(1);
        more.overrides = true;
        let expected = "c1 gets 0 replicas of web, and 3 were decided";
        assert_eq!(more.differences(), [expected]);
        more.decisions[0].spec.workloads[0].clusters.remove(1);
        assert_eq!(
            more.differences()[1],
            "c2 gets 2 replicas of web, and 0 were decided"
        );

        let mut lacks = hub();
        lacks.bundles.remove(1);
        assert_eq!(lacks.differences(), ["web-all places c2, which has no Bundle"]);
        // One that is gone has none.
        lacks.clusters.remove("c2");
        assert_eq!(lacks.differences(), Vec::<String>::new());

        let mut elsewhere = hub();
        elsewhere.decisions[0].spec.clusters.remove(1);
        let expected = "bundle cluster-c2/default.web is placed by no Decision";
        assert_eq!(elsewhere.differences(), [expected]);
        // Unless it waits until somebody confirms that it goes.
        let held = json!({"hash": "h", "count": 1});
        let status = elsewhere.applications[0].status.as_mut().unwrap();
        status.held_deletes = serde_json::from_value(held).unwrap();
        assert_eq!(elsewhere.differences(), Vec::<String>::new());
        elsewhere.applications[0].status.as_mut().unwrap().held_deletes = None;
        // One of an earlier revision places nothing.
        elsewhere.decisions[0].spec.revision = "web-v0".to_owned();
        assert_eq!(elsewhere.differences().len(), 2);
    }

    #[test]
    fn what_users_wrote_last_is_in_the_bundles_and_nothing_of_what_they_deleted() {
        let mut stale = hub();
        stale.bundles[1].spec.workload.manifests[0]["data"]["k"] = json!("0");
        let differ = stale.differences();
        assert!(
            differ.len() == 1 && differ[0].contains("c2: of web: ConfigMap web differs at .data.k"),
            "{differ:?}"
        );
        stale.overrides = true;
        assert_eq!(stale.differences(), Vec::<String>::new());

        let mut lacks = hub();
        lacks.bundles[0].spec.workload.manifests.remove(0);
        assert_eq!(lacks.differences(), ["c1: of web: ConfigMap web is not there"]);

        let mut deleted = hub();
        deleted.applications[0].metadata.uid = Some("another".to_owned());
        let differ = deleted.differences();
        assert_eq!(differ.len(), 2, "{differ:?}");
        assert_eq!(
            differ[0],
            "bundle cluster-c1/default.web is of default/web, which is not there"
        );
        deleted.late = [("cluster-c1".to_owned(), "default.web".to_owned())].into();
        assert_eq!(deleted.differences().len(), 1);
    }
}
