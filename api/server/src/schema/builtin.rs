//! Schemas of the built-in kinds, taken from `k8s-openapi` (Kubernetes 1.36) and shared by the process.

use std::{collections::HashMap, sync::LazyLock};

use k8s_openapi::{
    Resource,
    api::{
        admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates,
        coordination, core, discovery, events, networking, policy, rbac, scheduling, storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions,
    kube_aggregator::pkg::apis::apiregistration,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::{Definitions, Schema};

/// Compiled schemas of every built-in kind.
#[derive(Debug)]
pub(crate) struct Builtin {
    /// By definition name, such as `io.k8s.api.apps.v1.Deployment`.
    pub(crate) definitions: Definitions,
    names: Names,
}

/// Definition names by `apiVersion` and kind.
type Names = HashMap<&'static str, HashMap<&'static str, String>>;

impl Builtin {
    /// The schema of a kind.
    pub(crate) fn schema(&self, api_version: &str, kind: &str) -> Option<&Schema> {
        self.definitions.get(self.name(api_version, kind)?)
    }

    /// The definition name of a kind.
    pub(crate) fn name(&self, api_version: &str, kind: &str) -> Option<&str> {
        self.names.get(api_version)?.get(kind).map(String::as_str)
    }
}

/// The compiled schemas; built at first use (some milliseconds, a few MB) and kept.
pub(crate) fn builtin() -> &'static Builtin {
    static BUILTIN: LazyLock<Builtin> = LazyLock::new(|| {
        let (json, names) = generate();
        let definitions = json
            .iter()
            .map(|(name, schema)| (name.as_str().into(), Schema::compile(schema)))
            .collect();
        Builtin { definitions, names }
    });
    &BUILTIN
}

/// The JSON schemas with descriptions, for OpenAPI documents; built for the caller and not kept.
pub(crate) fn builtin_json() -> Map<String, Value> {
    generate().0
}

fn generate() -> (Map<String, Value>, Names) {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let mut names = Names::new();
    macro_rules! add {
        ($($group:ident::$version:ident => $($kind:ident),+;)+) => {
            $($(add_kind::<$group::$version::$kind>(&mut generator, &mut names);)+)+
        };
    }
    add! {
        core::v1 => ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim,
            Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount;
        admissionregistration::v1 => MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding,
            MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
            ValidatingWebhookConfiguration;
        apiextensions::v1 => CustomResourceDefinition;
        apiregistration::v1 => APIService;
        apps::v1 => ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet;
        authentication::v1 => SelfSubjectReview;
        authorization::v1 => SelfSubjectAccessReview, SubjectAccessReview;
        autoscaling::v1 => Scale;
        autoscaling::v2 => HorizontalPodAutoscaler;
        batch::v1 => CronJob, Job;
        certificates::v1 => CertificateSigningRequest;
        coordination::v1 => Lease;
        discovery::v1 => EndpointSlice;
        events::v1 => Event;
        networking::v1 => Ingress, IngressClass, NetworkPolicy;
        policy::v1 => PodDisruptionBudget;
        rbac::v1 => ClusterRole, ClusterRoleBinding, Role, RoleBinding;
        scheduling::v1 => PriorityClass;
        storage::v1 => CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment;
    }
    let mut definitions = generator.take_definitions(false);
    // k8s-openapi says "object" of these; Kubernetes' own documents give them no type: a default may be a list.
    for name in [
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    ] {
        let name = format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}");
        if let Some(definition) = definitions.get_mut(&name).and_then(Value::as_object_mut) {
            definition.remove("type");
        }
    }
    (definitions, names)
}

fn add_kind<K: JsonSchema + Resource>(generator: &mut SchemaGenerator, names: &mut Names) {
    generator.subschema_for::<K>();
    names
        .entry(K::API_VERSION)
        .or_default()
        .insert(K::KIND, K::schema_name().into_owned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::BUILTIN;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for resource in BUILTIN.iter() {
            let schema = builtin().schema(&resource.api_version(), &resource.kind);
            assert!(
                schema.is_some_and(|s| !s.properties.is_empty()),
                "{}",
                resource.qualified()
            );
        }
    }

    #[test]
    fn every_reference_resolves() {
        fn check(schema: &Schema, definitions: &Definitions) {
            if let Some(name) = &schema.reference {
                assert!(definitions.contains_key(name), "{name}");
            }
            let children = schema
                .properties
                .values()
                .chain(schema.additional.as_deref())
                .chain(schema.items.as_deref());
            children.for_each(|s| check(s, definitions));
        }
        builtin()
            .definitions
            .values()
            .for_each(|s| check(s, &builtin().definitions));
    }
}
