//! Agents that do nothing but report, each as its script says.

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use parking_lot::Mutex;
use roundhouse_api::bundle::{
    Bundle, BundlePhase, BundleStatus, Counts, FeedbackValue, FieldValue, FieldValueType, ManifestCondition,
    ResourceMeta, ResourceStatus, StatusFeedback, WorkloadStatus,
};
use std::{collections::BTreeMap, sync::Arc};

/// What an agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    /// Everything is applied and ready.
    Ready,
    /// Everything is applied, a replica is missing.
    Applied,
    /// Something failed.
    Failed,
    /// Everything is applied and ready, and apply-once is on: workloads go only when that is confirmed.
    Keeps,
    /// Everything is applied and ready, and does not go: a finalizer of somebody else's is on it.
    Holds,
    /// Nothing: it is cut off.
    Silent,
}

/// The agents of all clusters.
#[derive(Clone)]
pub(crate) struct Agents {
    client: Client,
    scripts: Arc<Mutex<BTreeMap<String, Script>>>,
    /// What objects of a cluster say when they are asked: cluster and name of the value -> the value.
    said: Arc<Mutex<BTreeMap<(String, String), String>>>,
}

impl Agents {
    /// Starts them; each follows [`Script::Ready`] until told otherwise.
    pub(crate) fn start(client: Client) -> Agents {
        let agents = Agents {
            client: client.clone(),
            scripts: Arc::default(),
            said: Arc::default(),
        };
        let following = agents.clone();
        tokio::spawn(async move {
            let bundles: Api<Bundle> = Api::all(client);
            let mut events = watcher(bundles, watcher::Config::default())
                .default_backoff()
                .applied_objects()
                .boxed();
            while let Some(event) = events.next().await {
                if let Ok(bundle) = event {
                    following.act(&bundle).await;
                }
            }
        });
        agents
    }

    /// Gives a cluster's agent another script, and lets it act on what is there.
    pub(crate) async fn script(&self, cluster: &str, script: Script) {
        self.scripts.lock().insert(cluster.to_owned(), script);
        self.act_on_all(cluster).await;
    }

    /// An object of a cluster says this for a value of that name from now on.
    pub(crate) async fn say(&self, cluster: &str, name: &str, value: &str) {
        let key = (cluster.to_owned(), name.to_owned());
        self.said.lock().insert(key, value.to_owned());
        self.act_on_all(cluster).await;
    }

    /// Nothing is said for that value any more.
    pub(crate) async fn silence(&self, cluster: &str, name: &str) {
        self.said.lock().remove(&(cluster.to_owned(), name.to_owned()));
        self.act_on_all(cluster).await;
    }

    async fn act_on_all(&self, cluster: &str) {
        let bundles: Api<Bundle> = Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"));
        for bundle in bundles.list(&Default::default()).await.unwrap() {
            self.act(&bundle).await;
        }
    }

    async fn act(&self, bundle: &Bundle) {
        let namespace = bundle.namespace().unwrap();
        let cluster = namespace.strip_prefix("cluster-").unwrap();
        let script = self.scripts.lock().get(cluster).copied().unwrap_or(Script::Ready);
        let Some(mut status) = report(bundle, script) else {
            return;
        };
        let said = feedback(bundle, cluster, &self.said.lock());
        if !said.is_empty() && status.phase == Some(BundlePhase::Ready) {
            status.resource_status.get_or_insert_default().manifests = said;
        }
        if bundle.status.as_ref() == Some(&status) {
            return;
        }
        let bundles: Api<Bundle> = Api::namespaced(self.client.clone(), &namespace);
        let mut patch = serde_json::json!({"metadata": {"uid": bundle.uid()}, "status": status});
        if status.resource_status.is_none() {
            // What was said of other content goes.
            patch["status"]["resourceStatus"] = serde_json::Value::Null;
        }
        let patched = bundles
            .patch_status(&bundle.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match patched {
            Ok(_) => {}
            // Gone, or another one by now: the next event tells.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            Err(error) => panic!("an agent cannot report: {error}"),
        }
    }
}

/// What the objects of a bundle say that its feedback rules ask for.
fn feedback(
    bundle: &Bundle,
    cluster: &str,
    said: &BTreeMap<(String, String), String>,
) -> Vec<ManifestCondition> {
    let text = |manifest: &serde_json::Value, pointer: &str| {
        let text = manifest.pointer(pointer).and_then(serde_json::Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let mut all = Vec::new();
    for config in &bundle.spec.manifest_configs {
        let asked = config.feedback_rules.iter().flat_map(|rule| &rule.json_paths);
        let values: Vec<FeedbackValue> = asked
            .filter_map(|path| {
                let value = said.get(&(cluster.to_owned(), path.name.clone()))?;
                Some(FeedbackValue {
                    name: path.name.clone(),
                    field_value: FieldValue {
                        type_: FieldValueType::String,
                        string: Some(value.clone()),
                        ..FieldValue::default()
                    },
                })
            })
            .collect();
        let manifests = bundle.spec.workload.manifests.iter().enumerate();
        let wanted = &config.resource_identifier.name;
        let named = manifests.filter(|(_, m)| wanted == "*" || text(m, "/metadata/name") == *wanted);
        for (ordinal, manifest) in named.filter(|_| !values.is_empty()) {
            all.push(ManifestCondition {
                resource_meta: ResourceMeta {
                    ordinal: u32::try_from(ordinal).unwrap(),
                    kind: text(manifest, "/kind"),
                    namespace: text(manifest, "/metadata/namespace"),
                    name: text(manifest, "/metadata/name"),
                    ..ResourceMeta::default()
                },
                status_feedback: Some(StatusFeedback {
                    values: values.clone(),
                }),
                ..ManifestCondition::default()
            });
        }
    }
    all
}

fn refused(generation: Option<i64>) -> Condition {
    Condition {
        type_: "Degraded".to_owned(),
        status: "True".to_owned(),
        reason: "RemovalRefused".to_owned(),
        message: "Deployment.apps default/web still asks for 3 replicas".to_owned(),
        observed_generation: generation,
        last_transition_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
    }
}

fn removing(generation: Option<i64>) -> Condition {
    Condition {
        type_: "Progressing".to_owned(),
        status: "True".to_owned(),
        reason: "Removing".to_owned(),
        message: "Deployment.apps default/web: its finalizer example.org/hold is on it".to_owned(),
        ..refused(generation)
    }
}

fn report(bundle: &Bundle, script: Script) -> Option<BundleStatus> {
    let generation = bundle.metadata.generation;
    if script == Script::Silent {
        return None;
    }
    if bundle.metadata.deletion_timestamp.is_some() {
        // Without the evidence for removal the objects are held, and nothing is cleaned.
        let deletion = bundle.spec.deletion.as_ref()?;
        let stays = match script {
            Script::Keeps if deletion.confirmed_by == "garbage-collection" => Some(refused(generation)),
            Script::Holds => Some(removing(generation)),
            _ => None,
        };
        if let Some(why) = stays {
            return Some(BundleStatus {
                phase: Some(BundlePhase::Progressing),
                observed_generation: generation,
                conditions: vec![why],
                ..BundleStatus::default()
            });
        }
        return Some(BundleStatus {
            phase: Some(BundlePhase::Cleaned),
            observed_generation: generation,
            ..BundleStatus::default()
        });
    }
    let total = u32::try_from(bundle.spec.workload.manifests.len()).unwrap();
    let replicas: u32 = bundle
        .spec
        .workload
        .manifests
        .iter()
        .filter_map(|m| m.pointer("/spec/replicas")?.as_u64())
        .map(|n| u32::try_from(n).unwrap())
        .sum();
    let (phase, ready, failed) = match script {
        Script::Ready | Script::Keeps | Script::Holds => (BundlePhase::Ready, replicas, 0),
        Script::Applied => (BundlePhase::Progressing, replicas.saturating_sub(1), 0),
        Script::Failed => (BundlePhase::Failed, 0, 1),
        Script::Silent => return None,
    };
    Some(BundleStatus {
        hash: bundle.spec.hash.clone(),
        observed_generation: generation,
        epoch: bundle.spec.epoch,
        phase: Some(phase),
        counts: Some(Counts {
            total,
            applied: total - failed,
            ready: if phase == BundlePhase::Ready { total } else { 0 },
            failed,
        }),
        workloads: vec![WorkloadStatus {
            kind: "Deployment".to_owned(),
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            desired: replicas,
            updated: replicas,
            ready,
        }],
        resource_status: (script == Script::Failed).then(|| deadline_exceeded(generation)),
        ..BundleStatus::default()
    })
}

/// What an agent says of a Deployment that does not get ready in time, beside a Job that is listed for its rules only.
fn deadline_exceeded(generation: Option<i64>) -> ResourceStatus {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: Time("2026-01-01T00:00:00Z".parse().unwrap()),
    };
    let manifest = |ordinal: u32, kind: &str, name: &str, conditions: Vec<Condition>| ManifestCondition {
        resource_meta: ResourceMeta {
            ordinal,
            kind: kind.to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            ..ResourceMeta::default()
        },
        conditions,
        status_feedback: None,
    };
    let applied = || condition("Applied", "True", "Applied", "");
    let waits = condition("Available", "False", "Progressing", "0 pods have succeeded");
    let incomplete = condition(
        "Complete",
        "False",
        "ConditionRuleEvaluated",
        "Job is not finished",
    );
    let exceeded = "ProgressDeadlineExceeded: ReplicaSet web-1 has timed out progressing.";
    ResourceStatus {
        manifests: vec![
            manifest(0, "Job", "migrate", vec![applied(), waits, incomplete]),
            manifest(
                1,
                "Deployment",
                "web",
                vec![condition("Available", "False", "Failed", exceeded)],
            ),
        ],
        ..ResourceStatus::default()
    }
}
