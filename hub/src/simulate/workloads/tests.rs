//! Tables: an object, the passage of time, and the statuses it goes through.

use super::*;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use serde_json::{Value, json};
use std::time::Duration;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_000_000_000 + millis).unwrap()
}

/// Every replica takes exactly one second.
fn steady() -> Model {
    Model {
        delay: Duration::from_secs(1)..=Duration::from_secs(1),
        ..Model::default()
    }
}

fn object<K: Workload>(kind: &str, generation: i64, spec: &Value) -> K {
    let api = match kind {
        "Pod" => "v1",
        "Job" => "batch/v1",
        "PodDisruptionBudget" => "policy/v1",
        _ => "apps/v1",
    };
    let object = json!({"apiVersion": api, "kind": kind, "spec": spec,
        "metadata": {"name": "web", "namespace": "default", "generation": generation}});
    serde_json::from_value(object).unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}})
}

fn replicated<K: Workload>(kind: &str, generation: i64, replicas: i32, image: &str) -> K {
    let spec = json!({"replicas": replicas, "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}}, "template": template(image)});
    object(kind, generation, &spec)
}

/// An object that lives: its spec is changed, time passes, its status follows.
struct Life<K: Workload> {
    object: K,
    memory: Option<Memory>,
    model: Model,
    pods: Pods,
    wake_at: Option<Timestamp>,
}

impl<K: Workload> Life<K> {
    fn of(object: K, model: Model) -> Self {
        Life {
            object,
            memory: None,
            model,
            pods: Pods::default(),
            wake_at: None,
        }
    }

    fn around(&self, now: Timestamp) -> Around<'_> {
        Around {
            model: &self.model,
            pods: &self.pods,
            now,
        }
    }

    /// A new spec keeps the status, as an API server does.
    fn becomes(&mut self, object: K) {
        self.object = match self.object.status().cloned() {
            Some(status) => object.with_status(status),
            None => object,
        };
    }

    /// Looks at `now`; returns the status as the API server would show it.
    fn look(&mut self, now: Timestamp) -> Value {
        let next = self.object.next(self.memory.clone(), &self.around(now));
        self.memory = Some(next.memory);
        self.wake_at = next.wake_at;
        self.object = self.object.clone().with_status(next.status);
        // Through JSON and back, so that times lose what the wire loses.
        let wire = serde_json::to_value(&self.object).unwrap();
        self.object = serde_json::from_value(wire.clone()).unwrap();
        let again = self.object.next(self.memory.clone(), &self.around(now));
        assert!(
            self.object.status() == Some(&again.status),
            "a second look changes nothing"
        );
        wire["status"].clone()
    }

    /// Sleeps and looks until nothing is expected.
    fn settle(&mut self, mut now: Timestamp) -> (Value, Timestamp) {
        let mut status = self.look(now);
        for _ in 0..200 {
            match self.wake_at {
                // The deadline of ten minutes is not waited for.
                Some(at) if at.duration_since(now).as_secs() < 60 => {
                    now = at;
                    status = self.look(now);
                }
                _ => return (status, now),
            }
        }
        panic!("does not settle: {status}");
    }
}

/// The named counts of a status; absent ones are 0.
fn counts<const N: usize>(status: &Value, names: [&str; N]) -> [i64; N] {
    names.map(|name| status[name].as_i64().unwrap_or(0))
}

const DEPLOYMENT: [&str; 5] = [
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
];

fn reasons(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().unwrap();
    let mut reasons: Vec<String> = conditions
        .iter()
        .map(|c| {
            format!(
                "{}={}",
                c["type"].as_str().unwrap(),
                c["reason"].as_str().unwrap()
            )
        })
        .collect();
    reasons.sort();
    reasons
}

#[test]
fn a_deployment_starts_and_becomes_available() {
    let mut life = Life::of(replicated::<Deployment>("Deployment", 1, 3, "web:1"), steady());
    let status = life.look(at(0));
    assert_eq!(counts(&status, DEPLOYMENT), [3, 3, 0, 0, 3]);
    assert_eq!(
        reasons(&status),
        [
            "Available=MinimumReplicasUnavailable",
            "Progressing=ReplicaSetUpdated"
        ]
    );
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(counts(&life.look(at(999)), DEPLOYMENT), [3, 3, 0, 0, 3]);
    let status = life.look(at(1000));
    assert_eq!(counts(&status, DEPLOYMENT), [3, 3, 3, 3, 0]);
    assert_eq!(
        reasons(&status),
        [
            "Available=MinimumReplicasAvailable",
            "Progressing=NewReplicaSetAvailable"
        ]
    );
    assert_eq!(life.wake_at, None, "nothing changes by itself any more");
}

#[test]
fn a_deployment_scales_without_touching_what_runs() {
    let mut life = Life::of(replicated::<Deployment>("Deployment", 1, 4, "web:1"), steady());
    let (_, now) = life.settle(at(0));
    life.becomes(replicated("Deployment", 2, 6, "web:1"));
    assert_eq!(counts(&life.look(now), DEPLOYMENT), [6, 6, 4, 4, 2]);
    let (status, now) = life.settle(now);
    assert_eq!(counts(&status, DEPLOYMENT), [6, 6, 6, 6, 0]);
    life.becomes(replicated("Deployment", 3, 1, "web:1"));
    let status = life.look(now);
    assert_eq!(counts(&status, DEPLOYMENT), [1, 1, 1, 1, 0]);
    assert_eq!(status["observedGeneration"], 3);
    life.becomes(replicated("Deployment", 4, 0, "web:1"));
    assert_eq!(counts(&life.look(now), DEPLOYMENT), [0; 5]);
}

#[test]
fn a_deployment_rolls_within_its_bounds() {
    let model = Model::default();
    let mut life = Life::of(replicated::<Deployment>("Deployment", 1, 10, "web:1"), model);
    let (_, mut now) = life.settle(at(0));
    life.becomes(replicated("Deployment", 2, 10, "web:2"));
    let first = life.look(now);
    // 25 % of 10: up to 3 more, up to 2 fewer. Scaled up first, then down.
    assert_eq!(counts(&first, DEPLOYMENT), [13, 5, 8, 8, 5]);
    while let Some(at) = life.wake_at.filter(|at| at.duration_since(now).as_secs() < 60) {
        now = at;
        let [replicas, updated, ready, available, _] = counts(&life.look(now), DEPLOYMENT);
        assert!(replicas <= 13 && available >= 8 && updated <= 10 && ready >= 8);
    }
    assert_eq!(counts(&life.look(now), DEPLOYMENT), [10, 10, 10, 10, 0]);
}

#[test]
fn a_broken_image_stops_a_rollout_and_times_out() {
    let mut life = Life::of(replicated::<Deployment>("Deployment", 1, 4, "web:1"), steady());
    let (_, now) = life.settle(at(0));
    life.becomes(replicated("Deployment", 2, 4, "web:broken"));
    let (status, now) = life.settle(now);
    // One surge, one taken away: three old ones keep the service up.
    assert_eq!(counts(&status, DEPLOYMENT), [5, 2, 3, 3, 2]);
    assert_eq!(
        reasons(&status),
        [
            "Available=MinimumReplicasAvailable",
            "Progressing=ReplicaSetUpdated"
        ]
    );
    let deadline = life.wake_at.unwrap();
    assert_eq!(deadline.duration_since(now).as_secs(), 600);
    let status = life.look(deadline);
    assert_eq!(
        reasons(&status),
        [
            "Available=MinimumReplicasAvailable",
            "Progressing=ProgressDeadlineExceeded"
        ]
    );
    assert_eq!(life.wake_at, None);
    // A good image heals it.
    life.becomes(replicated("Deployment", 3, 4, "web:3"));
    let (status, _) = life.settle(deadline);
    assert_eq!(counts(&status, DEPLOYMENT), [4, 4, 4, 4, 0]);
    assert_eq!(
        reasons(&status),
        [
            "Available=MinimumReplicasAvailable",
            "Progressing=NewReplicaSetAvailable"
        ]
    );
}

#[test]
fn bounds_recreate_and_pause() {
    let with = |generation, image: &str, extra: Value| -> Deployment {
        let mut spec = json!({"replicas": 2, "selector": {}, "template": template(image)});
        spec.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        object("Deployment", generation, &spec)
    };
    // (extra fields of the spec, replicas, updated, ready right after a new image)
    let table = [
        (json!({"strategy": {"type": "Recreate"}}), [2, 2, 0]),
        (json!({"paused": true}), [2, 0, 2]),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}),
            [2, 1, 1],
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}}),
            [4, 2, 2],
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}}),
            [2, 2, 0],
        ),
    ];
    for (extra, expected) in table {
        let mut life = Life::of(with(1, "web:1", json!({})), steady());
        let (_, now) = life.settle(at(0));
        life.becomes(with(2, "web:2", extra.clone()));
        let status = life.look(now);
        assert_eq!(
            counts(&status, ["replicas", "updatedReplicas", "readyReplicas"]),
            expected,
            "{extra}"
        );
    }
}

#[test]
fn min_ready_seconds_delay_availability() {
    let spec = json!({"replicas": 1, "minReadySeconds": 5, "selector": {}, "template": template("web:1")});
    let mut life = Life::of(object::<Deployment>("Deployment", 1, &spec), steady());
    life.look(at(0));
    assert_eq!(counts(&life.look(at(1000)), DEPLOYMENT), [1, 1, 1, 0, 1]);
    assert_eq!(life.wake_at, Some(at(6000)));
    assert_eq!(counts(&life.look(at(6000)), DEPLOYMENT), [1, 1, 1, 1, 0]);
}

#[test]
fn a_restarted_simulator_writes_nothing() {
    let mut life = Life::of(replicated::<Deployment>("Deployment", 1, 5, "web:1"), steady());
    let (before, now) = life.settle(at(0));
    life.memory = None;
    assert_eq!(life.look(now), before);
    let mut life = Life::of(replicated::<StatefulSet>("StatefulSet", 1, 3, "web:1"), steady());
    let (before, now) = life.settle(at(0));
    life.memory = None;
    assert_eq!(life.look(now), before);
    // A template that changed meanwhile is rolled out.
    life.memory = None;
    life.becomes(replicated("StatefulSet", 2, 3, "web:2"));
    let (status, _) = life.settle(now);
    assert_eq!(
        counts(&status, ["replicas", "updatedReplicas", "readyReplicas"]),
        [3, 3, 3]
    );
}

#[test]
fn a_stateful_set_goes_one_by_one() {
    let names = ["replicas", "currentReplicas", "updatedReplicas", "readyReplicas"];
    let mut life = Life::of(replicated::<StatefulSet>("StatefulSet", 1, 3, "web:1"), steady());
    for (millis, expected) in [
        (0, [1, 1, 1, 0]),
        (1000, [2, 2, 2, 1]),
        (2000, [3, 3, 3, 2]),
        (3000, [3, 3, 3, 3]),
    ] {
        assert_eq!(counts(&life.look(at(millis)), names), expected, "{millis}");
    }
    life.becomes(replicated("StatefulSet", 2, 3, "web:2"));
    let status = life.look(at(3000));
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(counts(&status, names), [3, 2, 1, 2]);
    assert_eq!(counts(&life.look(at(4000)), names), [3, 1, 2, 2]);
    assert_eq!(counts(&life.look(at(5000)), names), [3, 0, 3, 2]);
    let status = life.look(at(6000));
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(counts(&status, names), [3, 3, 3, 3]);
}

#[test]
fn a_stateful_set_keeps_to_its_partition_and_policy() {
    let with = |generation, image: &str, strategy: Value| -> StatefulSet {
        let spec = json!({"replicas": 3, "serviceName": "web", "selector": {}, "template": template(image),
            "podManagementPolicy": "Parallel", "updateStrategy": strategy});
        object("StatefulSet", generation, &spec)
    };
    for (strategy, updated) in [
        (json!({"rollingUpdate": {"partition": 2}}), 1),
        (json!({"type": "OnDelete"}), 0),
        (json!({}), 3),
    ] {
        let mut life = Life::of(with(1, "web:1", strategy.clone()), steady());
        assert_eq!(counts(&life.look(at(0)), ["replicas"]), [3], "all at once");
        let (_, now) = life.settle(at(0));
        life.becomes(with(2, "web:2", strategy.clone()));
        let (status, _) = life.settle(now);
        assert_eq!(
            counts(&status, ["updatedReplicas", "readyReplicas"]),
            [updated, 3],
            "{strategy}"
        );
    }
}

#[test]
fn a_daemon_set_fills_the_nodes_and_rolls_one_by_one() {
    let names = [
        "desiredNumberScheduled",
        "updatedNumberScheduled",
        "numberReady",
        "numberUnavailable",
    ];
    let mut life = Life::of(replicated::<DaemonSet>("DaemonSet", 1, 0, "web:1"), steady());
    assert_eq!(counts(&life.look(at(0)), names), [3, 3, 0, 3]);
    assert_eq!(counts(&life.look(at(1000)), names), [3, 3, 3, 0]);
    life.becomes(replicated("DaemonSet", 2, 0, "web:2"));
    assert_eq!(counts(&life.look(at(1000)), names), [3, 1, 2, 1]);
    assert_eq!(counts(&life.look(at(2000)), names), [3, 2, 2, 1]);
    assert_eq!(counts(&life.look(at(3000)), names), [3, 3, 2, 1]);
    assert_eq!(counts(&life.look(at(4000)), names), [3, 3, 3, 0]);
    // More nodes, one daemon each.
    life.model.nodes = 5;
    assert_eq!(counts(&life.look(at(4000)), names), [5, 5, 3, 2]);
}

fn job(spec: &Value) -> Job {
    let mut whole = json!({"template": template("web:1")});
    whole
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    object("Job", 1, &whole)
}

#[test]
fn a_job_runs_to_its_end() {
    let names = ["active", "succeeded", "failed"];
    let mut life = Life::of(job(&json!({"parallelism": 2, "completions": 3})), steady());
    assert_eq!(counts(&life.look(at(0)), names), [2, 0, 0]);
    assert_eq!(counts(&life.look(at(1000)), names), [1, 2, 0]);
    let status = life.look(at(2000));
    assert_eq!(counts(&status, names), [0, 3, 0]);
    assert_eq!(
        reasons(&status),
        [
            "Complete=CompletionsReached",
            "SuccessCriteriaMet=CompletionsReached"
        ]
    );
    assert!(status["completionTime"].is_string());
    assert_eq!(life.look(at(999_000)), status, "a finished job stays as it is");
    assert_eq!(life.wake_at, None);
}

#[test]
fn a_job_fails_hangs_or_waits() {
    let crashing = Model {
        crashes_per_mille: 1000,
        ..steady()
    };
    let mut life = Life::of(job(&json!({"backoffLimit": 1})), crashing);
    let (status, _) = life.settle(at(0));
    assert_eq!(counts(&status, ["active", "succeeded", "failed"]), [0, 0, 2]);
    assert_eq!(
        reasons(&status),
        [
            "Failed=BackoffLimitExceeded",
            "FailureTarget=BackoffLimitExceeded"
        ]
    );
    assert_eq!(status["completionTime"], Value::Null);

    let mut life = Life::of(job(&json!({"template": template("web:broken")})), steady());
    let (status, _) = life.settle(at(0));
    assert_eq!(counts(&status, ["active", "ready"]), [1, 0]);

    let mut life = Life::of(job(&json!({"suspend": true})), steady());
    let (status, _) = life.settle(at(0));
    assert_eq!(counts(&status, ["active"]), [0]);
    assert_eq!(reasons(&status), ["Suspended=JobSuspended"]);
    life.becomes(job(&json!({"suspend": false})));
    let (status, _) = life.settle(at(0));
    assert_eq!(
        reasons(&status),
        [
            "Complete=CompletionsReached",
            "SuccessCriteriaMet=CompletionsReached",
            "Suspended=JobResumed"
        ]
    );
}

#[test]
fn a_pod_is_pulled_started_and_ready() {
    let pod = |image: &str| -> Pod { object("Pod", 1, &template(image)["spec"]) };
    let waiting = |status: &Value| status["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    let mut life = Life::of(pod("web:1"), steady());
    let status = life.look(at(0));
    assert_eq!(
        (&status["phase"], waiting(&status)),
        (&json!("Pending"), json!("ContainerCreating"))
    );
    let status = life.look(at(1000));
    assert_eq!(status["phase"], "Running");
    let ready = |c: &&Value| c["type"] == "Ready" && c["status"] == "True";
    assert!(status["conditions"].as_array().unwrap().iter().any(|c| ready(&c)));
    assert_eq!(life.look(at(5000)), status);

    let mut life = Life::of(pod("web:broken"), steady());
    assert_eq!(waiting(&life.settle(at(0)).0), "ImagePullBackOff");
    let crashing = Model {
        crashes_per_mille: 1000,
        ..steady()
    };
    let mut life = Life::of(pod("web:1"), crashing);
    assert_eq!(waiting(&life.settle(at(0)).0), "CrashLoopBackOff");

    let mut owned = pod("web:1");
    assert!(owned.is_played());
    owned.metadata.owner_references = serde_json::from_value(json!([
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}]))
    .unwrap();
    assert!(!owned.is_played());
}

/// A number that is far beyond what is run, and the sentence about it.
const HUGE: i32 = i32::MAX;

fn beyond(field: &str) -> String {
    format!("{field} is {HUGE}, and a simulated cluster runs at most 10000 replicas of one workload: ")
}

#[test]
fn replicas_beyond_the_bound_are_not_started_and_the_deployment_says_so() {
    let mut life = Life::of(replicated::<Deployment>("Deployment", 1, HUGE, "web:1"), steady());
    let (status, now) = life.settle(at(0));
    assert_eq!(counts(&status, DEPLOYMENT), [10_000, 10_000, 10_000, 10_000, 0]);
    assert_eq!(
        reasons(&status),
        [
            "Available=MinimumReplicasUnavailable",
            "Progressing=SimulatedReplicasBounded",
            "ReplicaFailure=SimulatedReplicasBounded",
        ]
    );
    let of = |type_| move |c: &&Value| c["type"] == type_;
    let conditions = status["conditions"].as_array().unwrap();
    let failure = conditions.iter().find(of("ReplicaFailure")).unwrap();
    let message = failure["message"].as_str().unwrap();
    assert!(message.starts_with(&beyond("spec.replicas")), "{message}");
    assert_eq!(life.wake_at, None, "what is not started is not waited for");

    // A new template rolls within the bound, and another number is another sentence.
    life.becomes(replicated("Deployment", 2, 20_000, "web:2"));
    let (status, now) = life.settle(now);
    assert_eq!(counts(&status, DEPLOYMENT), [10_000, 10_000, 10_000, 10_000, 0]);
    assert!(
        status.to_string().contains("spec.replicas is 20000, and"),
        "{status}"
    );
    assert!(!status.to_string().contains(&beyond("spec.replicas")), "{status}");

    // The largest number that is run is played as any other.
    life.becomes(replicated("Deployment", 3, 10_000, "web:2"));
    let (status, now) = life.settle(now);
    assert_eq!(
        reasons(&status),
        [
            "Available=MinimumReplicasAvailable",
            "Progressing=NewReplicaSetAvailable"
        ]
    );
    life.becomes(replicated("Deployment", 4, 0, "web:2"));
    assert_eq!(counts(&life.look(now), DEPLOYMENT), [0; 5]);
}

#[test]
fn a_rollout_with_a_huge_surge_is_bounded() {
    let with = |generation, image: &str| -> Deployment {
        let spec = json!({"replicas": HUGE, "selector": {}, "template": template(image),
            "strategy": {"rollingUpdate": {"maxSurge": HUGE, "maxUnavailable": 0}}});
        object("Deployment", generation, &spec)
    };
    let mut life = Life::of(with(1, "web:1"), steady());
    let (_, now) = life.settle(at(0));
    life.becomes(with(2, "web:2"));
    assert_eq!(
        counts(&life.look(now), ["replicas", "updatedReplicas"]),
        [20_000, 10_000]
    );
}

#[test]
fn a_status_that_somebody_else_wrote_is_bounded_too() {
    let mut deployment = replicated::<Deployment>("Deployment", 1, 3, "web:1");
    let status =
        json!({"observedGeneration": 1, "replicas": HUGE, "updatedReplicas": HUGE, "readyReplicas": HUGE});
    deployment.status = serde_json::from_value(status).unwrap();
    let (status, _) = Life::of(deployment, steady()).settle(at(0));
    assert_eq!(counts(&status, DEPLOYMENT), [3, 3, 3, 3, 0]);
}

#[test]
fn ordinals_and_completions_are_bounded() {
    let spec = json!({"replicas": HUGE, "serviceName": "web", "selector": {}, "template": template("web:1"),
        "podManagementPolicy": "Parallel"});
    let mut life = Life::of(object::<StatefulSet>("StatefulSet", 1, &spec), steady());
    let (status, now) = life.settle(at(0));
    assert_eq!(counts(&status, ["replicas", "readyReplicas"]), [10_000, 10_000]);
    assert_eq!(reasons(&status), ["ReplicaFailure=SimulatedReplicasBounded"]);
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with(&beyond("spec.replicas")), "{message}");
    life.becomes(replicated("StatefulSet", 2, 2, "web:1"));
    let status = life.look(now);
    assert_eq!(counts(&status, ["replicas", "readyReplicas"]), [2, 2]);
    assert_eq!(status["conditions"], Value::Null);

    let mut life = Life::of(job(&json!({"parallelism": HUGE, "completions": HUGE})), steady());
    let (status, _) = life.settle(at(0));
    assert_eq!(counts(&status, ["active", "succeeded", "failed"]), [0; 3]);
    assert_eq!(
        reasons(&status),
        [
            "Failed=SimulatedReplicasBounded",
            "FailureTarget=SimulatedReplicasBounded"
        ]
    );
    let message = status["conditions"][0]["message"].as_str().unwrap();
    assert!(message.starts_with(&beyond("spec.completions")), "{message}");

    // Many pods at once are no more than are still to succeed.
    let mut life = Life::of(job(&json!({"parallelism": HUGE, "completions": 3})), steady());
    assert_eq!(counts(&life.look(at(0)), ["active"]), [3]);
}

#[test]
fn a_load_balancer_has_an_address_of_its_own_as_long_as_it_is_one() {
    let service = |name: &str, type_: &str| -> Service {
        let service = json!({"metadata": {"name": name, "namespace": "default"},
            "spec": {"type": type_, "clusterIP": "10.0.0.1"}, "status": {"loadBalancer": {}}});
        serde_json::from_value(service).unwrap()
    };
    let address = |status: &Value| -> std::net::Ipv4Addr {
        let text = status["loadBalancer"]["ingress"][0]["ip"].as_str().unwrap();
        text.parse().unwrap()
    };
    assert!(!service("web", "ClusterIP").is_played());
    let mut life = Life::of(service("web", "LoadBalancer"), steady());
    assert!(life.object.is_played());
    let status = life.look(at(0));
    assert!(address(&status).is_documentation(), "{status}");
    assert_eq!(life.look(at(1000)), status);
    // The same in every cluster, another one for another name.
    let again = Life::of(service("web", "LoadBalancer"), Model { seed: 9, ..steady() }).look(at(5));
    assert_eq!(address(&again), address(&status));
    let other = Life::of(service("db", "LoadBalancer"), steady()).look(at(0));
    assert_ne!(address(&other), address(&status));

    life.becomes(service("web", "ClusterIP"));
    assert!(life.object.is_played());
    assert_eq!(life.look(at(2000))["loadBalancer"], json!({}));
    assert!(!life.object.is_played());
}

#[test]
fn a_budget_counts_the_pods_that_it_selects() {
    let names = [
        "expectedPods",
        "desiredHealthy",
        "currentHealthy",
        "disruptionsAllowed",
    ];
    let group = |app: &str, wanted, total, ready| Group {
        labels: [("app".to_owned(), app.to_owned())].into(),
        wanted,
        total,
        ready,
    };
    let key = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    let web = || json!({"matchLabels": {"app": "web"}});
    // (its spec, expected, to be healthy, healthy, allowed)
    for (spec, expected) in [
        (json!({"selector": web(), "minAvailable": 2}), [3, 2, 3, 1]),
        (json!({"selector": web(), "minAvailable": "50%"}), [4, 2, 3, 1]),
        (json!({"selector": web(), "maxUnavailable": 1}), [4, 3, 3, 0]),
        (json!({"selector": web(), "maxUnavailable": "30%"}), [4, 2, 3, 1]),
        (
            json!({"selector": web(), "maxUnavailable": i32::MAX}),
            [4, 0, 3, 3],
        ),
        (
            json!({"selector": {"matchLabels": {"app": "none"}}, "maxUnavailable": 1}),
            [0; 4],
        ),
        (
            json!({"selector": {"matchLabels": {"app": "none"}}, "minAvailable": 1}),
            [0, 1, 0, 0],
        ),
        (json!({"minAvailable": 0}), [0; 4]),
        (json!({"selector": {}, "minAvailable": 1}), [5, 1, 4, 3]),
        (
            json!({"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["log"]}]}, "minAvailable": 1}),
            [2, 1, 1, 0],
        ),
    ] {
        let mut life = Life::of(
            object::<PodDisruptionBudget>("PodDisruptionBudget", 7, &spec),
            steady(),
        );
        life.pods.put(
            "Deployment",
            &key("default", "web"),
            group("web", Wanted::Scale(4), 3, 3),
        );
        life.pods.put(
            "DaemonSet",
            &key("default", "log"),
            group("log", Wanted::NoScale("daemonsets.apps"), 2, 1),
        );
        life.pods.put(
            "Deployment",
            &key("other", "web"),
            group("web", Wanted::Scale(9), 9, 9),
        );
        let status = life.look(at(0));
        assert_eq!(counts(&status, names), expected.map(i64::from), "{spec}");
        assert_eq!(status["observedGeneration"], 7);
        let allowed = if expected[3] > 0 {
            "SufficientPods"
        } else {
            "InsufficientPods"
        };
        assert_eq!(reasons(&status), [format!("DisruptionAllowed={allowed}")]);
    }
    // As in Kubernetes, of pods whose controller has no scale there is no share.
    let spec = json!({"selector": {}, "maxUnavailable": 1});
    let mut life = Life::of(
        object::<PodDisruptionBudget>("PodDisruptionBudget", 7, &spec),
        steady(),
    );
    life.pods.put(
        "DaemonSet",
        &key("default", "log"),
        group("log", Wanted::NoScale("daemonsets.apps"), 2, 1),
    );
    let status = life.look(at(0));
    assert_eq!(reasons(&status), ["DisruptionAllowed=SyncFailed"]);
    assert_eq!(status["observedGeneration"], Value::Null);
}

#[test]
fn workloads_tell_of_their_pods() {
    let pods = |of: Option<Group>| {
        of.map(|g| {
            (
                g.labels.get("app").cloned().unwrap_or_default(),
                g.wanted,
                g.total,
                g.ready,
            )
        })
    };
    let web = |wanted, total, ready| Some(("web".to_owned(), wanted, total, ready));
    let mut life = Life::of(replicated::<Deployment>("Deployment", 1, 3, "web:1"), steady());
    life.look(at(0));
    assert_eq!(
        pods(life.object.pods(life.object.status().unwrap())),
        web(Wanted::Scale(3), 3, 0)
    );
    life.settle(at(1));
    assert_eq!(
        pods(life.object.pods(life.object.status().unwrap())),
        web(Wanted::Scale(3), 3, 3)
    );
    let mut life = Life::of(replicated::<DaemonSet>("DaemonSet", 1, 0, "web:1"), steady());
    life.settle(at(0));
    let of = pods(life.object.pods(life.object.status().unwrap()));
    assert_eq!(of, web(Wanted::NoScale("daemonsets.apps"), 3, 3));
    let mut life = Life::of(replicated::<StatefulSet>("StatefulSet", 1, 2, "web:1"), steady());
    life.look(at(0));
    assert_eq!(
        pods(life.object.pods(life.object.status().unwrap())),
        web(Wanted::Scale(2), 1, 0)
    );
}
