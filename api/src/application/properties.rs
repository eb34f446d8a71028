//! The application as [`validate()`](super::validate()) understood it: what its components, policies and steps say.
//!
//! These types are made by `validate()` only; the words that users write for them are in `validate/`.

use super::{DeployStep, Mode, StepKind, ValidStep, ValidTrait};
use crate::bundle::{ApplyOnce, ApplyOnceRule, Executor, ExecutorSubject, ExecutorType, ServiceAccountRef};
use serde_json::Value;
use std::collections::BTreeMap;

/// An application whose every property was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidApplication {
    /// Components, in order.
    pub components: Vec<ValidComponent>,
    /// Steps, in order; made from the placement policies where the application has no workflow.
    pub steps: Vec<ValidStep>,
    /// How they follow one another.
    pub mode: Mode,
    /// Whether the application asks for apply-once as a whole; absent: the agents' flag decides.
    pub apply_once: Option<ApplyOnce>,
    /// Fields that keep their live value.
    pub apply_once_rules: Vec<ApplyOnceRule>,
    /// On whose behalf the agents write the objects; absent: on their own.
    pub executor: Option<NamedAccount>,
}

/// A service account of the clusters, as an executor policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedAccount {
    /// Where it is named.
    pub path: String,
    /// Its namespace; absent: the application's.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl NamedAccount {
    /// As Bundles of an application in the namespace `own` have it.
    pub fn executor(&self, own: &str) -> Executor {
        Executor {
            subject: ExecutorSubject {
                type_: ExecutorType::ServiceAccount,
                service_account: Some(ServiceAccountRef {
                    namespace: self.namespace.clone().unwrap_or_else(|| own.to_owned()),
                    name: self.name.clone(),
                }),
            },
        }
    }
}

impl ValidApplication {
    /// The executor of its Bundles, if it is in the namespace `own`.
    pub fn executor(&self, own: &str) -> Option<Executor> {
        self.executor.as_ref().map(|account| account.executor(own))
    }

    /// All steps in the order of the document, each group before its own.
    pub fn all_steps(&self) -> impl Iterator<Item = &ValidStep> {
        self.steps.iter().flat_map(|step| {
            let inner = match &step.kind {
                StepKind::Group(group) => group.steps.as_slice(),
                _ => &[],
            };
            std::iter::once(step).chain(inner)
        })
    }

    /// The placing steps in the order of the document, those in groups included.
    pub fn placing(&self) -> impl Iterator<Item = (&ValidStep, &DeployStep)> {
        self.all_steps()
            .filter_map(|step| Some((step, step.kind.deploy()?)))
    }
}

/// A component whose properties were understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidComponent {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: ComponentKind,
    /// What is merged into its workload, and added beside it; the order has no meaning.
    pub traits: Vec<ValidTrait>,
}

/// The component types.
#[derive(Debug, Clone, PartialEq)]
pub enum ComponentKind {
    /// `k8s-objects`: manifests as they are.
    Objects(ObjectsProperties),
    /// `webservice`: a Deployment, and a Service for its exposed ports.
    Webservice(Box<WebserviceProperties>),
    /// `worker`: a Deployment without ports.
    Worker(Box<WorkerProperties>),
    /// `task`: a Job.
    Task(Box<TaskProperties>),
    /// `cron-task`: a CronJob.
    CronTask(Box<CronTaskProperties>),
}

impl ComponentKind {
    /// The type as an Application names it.
    pub fn type_name(&self) -> &'static str {
        match self {
            ComponentKind::Objects(_) => "k8s-objects",
            ComponentKind::Webservice(_) => "webservice",
            ComponentKind::Worker(_) => "worker",
            ComponentKind::Task(_) => "task",
            ComponentKind::CronTask(_) => "cron-task",
        }
    }
}

/// Properties of `k8s-objects`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ObjectsProperties {
    /// The manifests, as written; one that does not decode fails alone at the agent.
    pub objects: Vec<Value>,
}

/// What the types with one container share. Values of Kubernetes types (environment variables, volumes, probes) were
/// checked against their schema and are kept as they were written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerProperties {
    /// Container image.
    pub image: String,
    /// Entry point.
    pub cmd: Vec<String>,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables (`EnvVar`).
    pub env: Vec<Value>,
    /// CPU request and limit, a Kubernetes quantity.
    pub cpu: Option<String>,
    /// Memory request and limit, a Kubernetes quantity.
    pub memory: Option<String>,
    /// Replicas before division; absent is 1. Always absent for `task` and `cron-task`, which have a count.
    pub replicas: Option<u32>,
    /// Volumes of the pod (`Volume`), whichever form they were written in.
    pub volumes: Vec<Value>,
    /// Where they are mounted (`VolumeMount`).
    pub volume_mounts: Vec<Value>,
    /// Liveness probe (`Probe`).
    pub liveness_probe: Option<Value>,
    /// Readiness probe (`Probe`).
    pub readiness_probe: Option<Value>,
    /// Labels of workload and pods.
    pub labels: BTreeMap<String, String>,
    /// Annotations of workload and pods.
    pub annotations: BTreeMap<String, String>,
    /// When images are pulled.
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Names of Secrets.
    pub image_pull_secrets: Vec<String>,
    /// Entries for the pods' hosts file (`HostAlias`).
    pub host_aliases: Vec<Value>,
}

/// When images are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImagePullPolicy {
    /// Always.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never.
    Never,
}

impl ImagePullPolicy {
    /// The word that Kubernetes uses.
    pub fn as_str(self) -> &'static str {
        match self {
            ImagePullPolicy::Always => "Always",
            ImagePullPolicy::IfNotPresent => "IfNotPresent",
            ImagePullPolicy::Never => "Never",
        }
    }
}

/// Properties of `webservice`: those of a worker, and ports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WebserviceProperties {
    /// What it has in common with a worker.
    pub worker: WorkerProperties,
    /// Ports.
    pub ports: Vec<WebservicePort>,
    /// Type of the Service.
    pub expose_type: ExposeType,
}

/// Properties of `task`: those of a worker without replicas, and those of a Job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskProperties {
    /// What it has in common with a worker.
    pub worker: WorkerProperties,
    /// Pods that run to completion, all at the same time; before division, at least 1.
    pub count: u32,
    /// Whether a container that fails is started again in its pod.
    pub restart: RestartPolicy,
    /// Failures after which the Job has failed.
    pub backoff_limit: Option<u32>,
    /// Seconds after which a Job that still runs has failed.
    pub active_deadline_seconds: Option<u32>,
    /// Seconds after its end at which the Job is removed.
    pub ttl_seconds_after_finished: Option<u32>,
}

/// What becomes of a container of a Job that fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Its pod has failed, and the Job makes another one.
    #[default]
    Never,
    /// It is started again in its pod.
    OnFailure,
}

impl RestartPolicy {
    /// The word that Kubernetes uses.
    pub fn as_str(self) -> &'static str {
        match self {
            RestartPolicy::Never => "Never",
            RestartPolicy::OnFailure => "OnFailure",
        }
    }
}

/// Properties of `cron-task`: those of a task, and when it runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CronTaskProperties {
    /// Each run; its count is per cluster, because CronJobs are not divided.
    pub task: TaskProperties,
    /// When it runs, in Cron format.
    pub schedule: String,
    /// What happens when a run is due and the last one has not ended.
    pub concurrency_policy: Option<ConcurrencyPolicy>,
    /// Whether no run is started.
    pub suspend: Option<bool>,
    /// Seconds by which a run that was missed may be late.
    pub starting_deadline_seconds: Option<u32>,
    /// Runs that succeeded and are kept.
    pub successful_jobs_history_limit: Option<u32>,
    /// Runs that failed and are kept.
    pub failed_jobs_history_limit: Option<u32>,
}

/// What happens when a run of a `cron-task` is due and the last one has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// Both run.
    Allow,
    /// The new one is left out.
    Forbid,
    /// The old one is ended.
    Replace,
}

impl ConcurrencyPolicy {
    /// The word that Kubernetes uses.
    pub fn as_str(self) -> &'static str {
        match self {
            ConcurrencyPolicy::Allow => "Allow",
            ConcurrencyPolicy::Forbid => "Forbid",
            ConcurrencyPolicy::Replace => "Replace",
        }
    }
}

/// One port of a webservice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebservicePort {
    /// Port of the Service.
    pub port: u16,
    /// Port of the container.
    pub container_port: u16,
    /// Name; absent only for KubeVela's single `port`.
    pub name: Option<String>,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Whether the Service exposes it.
    pub expose: bool,
    /// Node port, with `exposeType: NodePort` or `LoadBalancer`.
    pub node_port: Option<u16>,
}

/// Transport protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP
    #[default]
    Tcp,
    /// UDP
    Udp,
    /// SCTP
    Sctp,
}

impl Protocol {
    /// The word that Kubernetes uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        }
    }
}

/// Types of a Service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExposeType {
    /// Inside the cluster.
    #[default]
    ClusterIp,
    /// On each node.
    NodePort,
    /// By a load balancer.
    LoadBalancer,
}

impl ExposeType {
    /// The word that Kubernetes uses.
    pub fn as_str(self) -> &'static str {
        match self {
            ExposeType::ClusterIp => "ClusterIP",
            ExposeType::NodePort => "NodePort",
            ExposeType::LoadBalancer => "LoadBalancer",
        }
    }
}
