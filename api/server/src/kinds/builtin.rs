//! The table of built-in kinds. Nothing else in the server is written per kind but defaults, immutability and columns.

use std::sync::{Arc, LazyLock};

use super::{
    conversion::{self, Conversion},
    resource::{GenerationRule, Quirks, Resource, ScalePaths, Text},
};

struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    namespaced: bool,
    short: &'static [&'static str],
    all: bool,
    status: bool,
    scale: bool,
    generation: GenerationRule,
    quirks: Quirks,
    conversion: Option<Conversion>,
}

const fn kind(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Row {
    let quirks = Quirks {
        create_on_update: false,
        version_required: false,
        returns_deleted: false,
        status_keeps_metadata: false,
        keeps_status_on_create: false,
        orphans: false,
        review: false,
    };
    Row {
        group,
        version,
        kind,
        plural,
        namespaced: true,
        short: &[],
        all: false,
        status: false,
        scale: false,
        generation: GenerationRule::None,
        quirks,
        conversion: None,
    }
}

impl Row {
    const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short = names;
        self
    }
    const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }
    const fn all(mut self) -> Self {
        self.all = true;
        self
    }
    const fn status(mut self) -> Self {
        self.status = true;
        self
    }
    const fn scale(mut self) -> Self {
        self.scale = true;
        self
    }
    const fn generation(mut self) -> Self {
        self.generation = GenerationRule::Spec;
        self
    }
    const fn generation_of_annotations(mut self) -> Self {
        self.generation = GenerationRule::SpecAndAnnotations;
        self
    }
    const fn create_on_update(mut self) -> Self {
        self.quirks.create_on_update = true;
        self
    }
    const fn version_required(mut self) -> Self {
        self.quirks.version_required = true;
        self
    }
    const fn returns_deleted(mut self) -> Self {
        self.quirks.returns_deleted = true;
        self
    }
    const fn status_keeps_metadata(mut self) -> Self {
        self.quirks.status_keeps_metadata = true;
        self
    }
    const fn orphans(mut self) -> Self {
        self.quirks.orphans = true;
        self
    }
    const fn review(mut self) -> Self {
        self.quirks.review = true;
        self.namespaced = false;
        self
    }
    const fn in_namespaces(mut self) -> Self {
        self.namespaced = true;
        self
    }
    const fn stored_as(mut self, conversion: Conversion) -> Self {
        self.conversion = Some(conversion);
        self
    }
    const fn keeps_status(mut self) -> Self {
        self.quirks.keeps_status_on_create = true;
        self
    }
}

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    kind("", "v1", "ConfigMap", "configmaps").short(&["cm"]),
    kind("", "v1", "Endpoints", "endpoints").short(&["ep"]).create_on_update(),
    kind("", "v1", "Event", "events").short(&["ev"]).create_on_update(),
    kind("", "v1", "LimitRange", "limitranges").short(&["limits"]).create_on_update(),
    kind("", "v1", "Namespace", "namespaces").short(&["ns"]).cluster().status(),
    kind("", "v1", "Node", "nodes").short(&["no"]).cluster().status().keeps_status(),
    kind("", "v1", "PersistentVolume", "persistentvolumes").short(&["pv"]).cluster().status().returns_deleted(),
    kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims").short(&["pvc"]).status().returns_deleted(),
    kind("", "v1", "Pod", "pods").short(&["po"]).all().status().generation().returns_deleted(),
    kind("", "v1", "PodTemplate", "podtemplates").generation().returns_deleted(),
    kind("", "v1", "ReplicationController", "replicationcontrollers").short(&["rc"]).all().status().scale().generation().orphans(),
    kind("", "v1", "ResourceQuota", "resourcequotas").short(&["quota"]).status().returns_deleted(),
    kind("", "v1", "Secret", "secrets"),
    kind("", "v1", "Service", "services").short(&["svc"]).all().status().create_on_update().returns_deleted(),
    kind("", "v1", "ServiceAccount", "serviceaccounts").short(&["sa"]).returns_deleted(),
    kind(ADMISSION, "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies").cluster().generation().version_required(),
    kind(ADMISSION, "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings").cluster().generation().version_required(),
    kind(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations").cluster().generation().version_required(),
    kind(ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies").cluster().status().status_keeps_metadata().generation().version_required(),
    kind(ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings").cluster().generation().version_required(),
    kind(ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations").cluster().generation().version_required(),
    kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions").short(&["crd", "crds"]).cluster().status().generation().version_required(),
    kind("apiregistration.k8s.io", "v1", "APIService", "apiservices").cluster().status().status_keeps_metadata().version_required(),
    kind("apps", "v1", "ControllerRevision", "controllerrevisions"),
    kind("apps", "v1", "DaemonSet", "daemonsets").short(&["ds"]).all().status().generation(),
    kind("apps", "v1", "Deployment", "deployments").short(&["deploy"]).all().status().scale().generation_of_annotations(),
    kind("apps", "v1", "ReplicaSet", "replicasets").short(&["rs"]).all().status().scale().generation(),
    kind("apps", "v1", "StatefulSet", "statefulsets").short(&["sts"]).all().status().scale().generation(),
    kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews").review(),
    kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews").review(),
    kind("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews").review().in_namespaces(),
    kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews").review(),
    kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews").review(),
    kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews").review(),
    kind("autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).all().status().stored_as(conversion::AUTOSCALER_V1),
    kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers").short(&["hpa"]).all().status(),
    kind("batch", "v1", "CronJob", "cronjobs").short(&["cj"]).all().status().generation(),
    kind("batch", "v1", "Job", "jobs").all().status().generation().orphans(),
    kind("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests").short(&["csr"]).cluster().status(),
    kind("coordination.k8s.io", "v1", "Lease", "leases").create_on_update().version_required(),
    kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices").generation(),
    kind("events.k8s.io", "v1", "Event", "events").short(&["ev"]).create_on_update().stored_as(conversion::EVENT),
    kind("networking.k8s.io", "v1", "Ingress", "ingresses").short(&["ing"]).status().generation(),
    kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses").cluster().generation(),
    kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies").short(&["netpol"]).generation(),
    kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets").short(&["pdb"]).status().generation().version_required(),
    kind(RBAC, "v1", "ClusterRole", "clusterroles").cluster().create_on_update(),
    kind(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings").cluster().create_on_update(),
    kind(RBAC, "v1", "Role", "roles").create_on_update(),
    kind(RBAC, "v1", "RoleBinding", "rolebindings").create_on_update(),
    kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses").short(&["pc"]).cluster().generation(),
    kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers").cluster().version_required().returns_deleted(),
    kind("storage.k8s.io", "v1", "CSINode", "csinodes").cluster().version_required().returns_deleted(),
    kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities").version_required(),
    kind("storage.k8s.io", "v1", "StorageClass", "storageclasses").short(&["sc"]).cluster().returns_deleted(),
    kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments").cluster().status().status_keeps_metadata().version_required().returns_deleted(),
];

/// Every built-in kind, shared by all servers of the process, in the order discovery lists them.
pub(crate) static BUILTIN: LazyLock<Vec<Arc<Resource>>> =
    LazyLock::new(|| ROWS.iter().map(resource).collect());

/// What the `token` subresource of service accounts takes; it is served nowhere else.
pub(crate) static TOKEN_REQUEST: LazyLock<Arc<Resource>> = LazyLock::new(|| {
    resource(&kind(
        "authentication.k8s.io",
        "v1",
        "TokenRequest",
        "tokenrequests",
    ))
});

fn resource(row: &Row) -> Arc<Resource> {
    let words = |list: &[&'static str]| list.iter().map(|s| Text::Borrowed(*s)).collect();
    let path = |keys: [&str; 2]| keys.map(str::to_owned).to_vec();
    let table = if let Some(conversion) = &row.conversion {
        conversion.table.to_owned()
    } else if row.group.is_empty() {
        row.plural.to_owned()
    } else {
        format!("{}.{}", row.plural, row.group)
    };
    Arc::new(Resource {
        group: row.group.into(),
        version: row.version.into(),
        kind: row.kind.into(),
        // `Endpoints` and `EndpointsList` keep the plural in the kind.
        list_kind: format!("{}List", row.kind).into(),
        plural: row.plural.into(),
        singular: row.kind.to_lowercase().into(),
        namespaced: row.namespaced,
        short_names: words(row.short),
        categories: if row.all { words(&["all"]) } else { vec![] },
        status: row.status,
        scale: row.scale.then(|| ScalePaths {
            spec: path(["spec", "replicas"]),
            status: path(["status", "replicas"]),
            selector: None,
        }),
        generation: row.generation,
        quirks: row.quirks,
        table: table.into(),
        conversion: row.conversion,
        shaped_since: 0,
        terminating: false,
        custom: None,
    })
}
