//! Schemas of the built-in kinds, taken from `k8s-openapi` (Kubernetes 1.36) and shared by the process.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use k8s_openapi::{
    Resource,
    api::{
        admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates,
        coordination, core, discovery, events, networking, policy, rbac, scheduling, storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions,
    kube_aggregator::pkg::apis::apiregistration,
};
use parking_lot::RwLock;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::{Definitions, Schema};

/// Definition name of `metadata`.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Definition name of quantities, which looks like any other number or text.
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";

/// The compiled schema of a built-in kind.
#[derive(Debug, Clone)]
pub(crate) struct Builtin {
    pub(crate) schema: Arc<Schema>,
    /// What it refers to, by definition name such as `io.k8s.api.core.v1.PodSpec`.
    pub(crate) definitions: Arc<Definitions>,
}

/// How a kind gets into a generator.
#[derive(Clone, Copy)]
struct Generates {
    /// Its definition name.
    name: fn() -> Cow<'static, str>,
    /// Adds it, and all that it refers to.
    add: fn(&mut SchemaGenerator),
}

/// By `apiVersion` and kind.
type ByKind<T> = HashMap<&'static str, HashMap<&'static str, T>>;

/// The kinds that were asked for, and the definitions they share.
#[derive(Default)]
struct Compiled {
    kinds: ByKind<Builtin>,
    pool: Definitions,
}

/// The compiled schema of a kind: made when it is first asked for, since few servers see most kinds, and kept.
pub(crate) fn builtin(api_version: &str, kind: &str) -> Option<Builtin> {
    static COMPILED: LazyLock<RwLock<Compiled>> = LazyLock::new(RwLock::default);
    let known = |compiled: &Compiled| compiled.kinds.get(api_version)?.get(kind).cloned();
    if let Some(found) = known(&COMPILED.read()) {
        return Some(found);
    }
    let (api_version, kinds) = KINDS.get_key_value(api_version)?;
    let (kind, generates) = kinds.get_key_value(kind)?;
    let mut compiled = COMPILED.write();
    if let Some(found) = known(&compiled) {
        return Some(found);
    }
    let mut generator = generator();
    (generates.add)(&mut generator);
    let definitions = definitions_of(&mut generator).into_iter().map(|(name, json)| {
        let shared = compiled.pool.entry(name.as_str().into());
        let schema = shared.or_insert_with(|| {
            let mut schema = Schema::compile(&json);
            schema.quantity = name == QUANTITY;
            Arc::new(schema)
        });
        (Box::from(name), schema.clone())
    });
    let definitions = Arc::new(definitions.collect::<Definitions>());
    let schema = definitions.get(&*(generates.name)())?.clone();
    let found = Builtin { schema, definitions };
    compiled
        .kinds
        .entry(api_version)
        .or_default()
        .insert(kind, found.clone());
    Some(found)
}

/// The definition name of a kind.
pub(crate) fn builtin_name(api_version: &str, kind: &str) -> Option<Cow<'static, str>> {
    Some((KINDS.get(api_version)?.get(kind)?.name)())
}

/// The schema of `metadata`, which every kind refers to.
pub(crate) fn object_meta() -> Option<Builtin> {
    let any = builtin("v1", "Namespace")?;
    Some(Builtin {
        schema: any.definitions.get(OBJECT_META)?.clone(),
        ..any
    })
}

/// The JSON schemas of all kinds with descriptions, for OpenAPI documents; built for the caller and not kept.
pub(crate) fn builtin_json() -> Map<String, Value> {
    let mut generator = generator();
    let all = KINDS.values().flat_map(HashMap::values);
    all.for_each(|kind| (kind.add)(&mut generator));
    definitions_of(&mut generator)
}

fn generator() -> SchemaGenerator {
    SchemaSettings::openapi3().into_generator()
}

static KINDS: LazyLock<ByKind<Generates>> = LazyLock::new(|| {
    let mut kinds = ByKind::new();
    macro_rules! add {
        ($($group:ident::$version:ident => $($kind:ident),+;)+) => {
            $($(add_kind::<$group::$version::$kind>(&mut kinds);)+)+
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
        authentication::v1 => SelfSubjectReview, TokenRequest, TokenReview;
        authorization::v1 => LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview;
        autoscaling::v1 => HorizontalPodAutoscaler, Scale;
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
    kinds
});

fn add_kind<K: JsonSchema + Resource>(kinds: &mut ByKind<Generates>) {
    let generates = Generates {
        name: K::schema_name,
        add: |generator| {
            generator.subschema_for::<K>();
        },
    };
    kinds
        .entry(K::API_VERSION)
        .or_default()
        .insert(K::KIND, generates);
}

fn definitions_of(generator: &mut SchemaGenerator) -> Map<String, Value> {
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
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::BUILTIN;

    #[test]
    fn every_built_in_kind_has_a_schema() {
        for resource in BUILTIN.iter() {
            let found = builtin(&resource.api_version(), &resource.kind);
            assert!(
                found.is_some_and(|found| !found.schema.properties.is_empty()),
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
        for resource in BUILTIN.iter() {
            let found = builtin(&resource.api_version(), &resource.kind).unwrap();
            for schema in found.definitions.values() {
                check(schema, &found.definitions);
            }
        }
    }
}
