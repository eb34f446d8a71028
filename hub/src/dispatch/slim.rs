//! Bundles as the hub reads them: of the manifests nothing is made but what tells how many replicas they ask for. A hub reads
//! every Bundle when it starts, and again with each report, and manifests are most of a Bundle.

use super::Observed;
use crate::render;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use roundhouse_api::bundle::{Bundle, BundleSpec, BundleStatus};
use serde::{
    Deserialize,
    de::{
        DeserializeSeed, Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::MapAccessDeserializer,
    },
};
use serde_json::{Map, Value};
use std::{borrow::Cow, fmt, marker::PhantomData};

/// A Bundle without its manifests and without its managed fields.
#[derive(Debug, Clone)]
pub struct Slim {
    bundle: Bundle,
    /// Replicas that its manifests ask for.
    replicas: u64,
}

impl Slim {
    /// What the hub remembers of it. `None` if it is in no cluster's namespace.
    pub fn observed(self) -> Option<Observed> {
        Observed::with_replicas(self.bundle, self.replicas)
    }
}

impl Resource for Slim {
    type DynamicType = ();
    type Scope = <Bundle as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        Bundle::kind(&())
    }
    fn group((): &()) -> Cow<'_, str> {
        Bundle::group(&())
    }
    fn version((): &()) -> Cow<'_, str> {
        Bundle::version(&())
    }
    fn plural((): &()) -> Cow<'_, str> {
        Bundle::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.bundle.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.bundle.metadata
    }
}

impl<'de> Deserialize<'de> for Slim {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Body {
            metadata: Less<Managed>,
            spec: Less<Workload>,
            #[serde(default)]
            status: Value,
        }
        let body = Body::deserialize(deserializer)?;
        let mut bundle = Bundle::new("", body.spec.rest);
        bundle.metadata = body.metadata.rest;
        // What an agent says that cannot be read is its cluster's trouble, not that of all the others in the list.
        bundle.status = match serde_json::from_value::<Option<BundleStatus>>(body.status) {
            Ok(status) => status,
            Err(error) => {
                let (namespace, name) = (&bundle.metadata.namespace, &bundle.metadata.name);
                tracing::warn!(?namespace, ?name, %error, "the status of a Bundle is not understood, and counts as none");
                None
            }
        };
        let manifests: Vec<Value> = body.spec.taken.manifests.into_iter().map(|head| head.0).collect();
        Ok(Slim {
            bundle,
            replicas: render::replicas_of(&manifests),
        })
    }
}

/// A field that is read by itself.
trait Part: for<'de> Deserialize<'de> + Default {
    /// Its name.
    const NAME: &'static str;
    /// What it is a field of.
    type Whole: for<'de> Deserialize<'de>;

    /// What stands there in its place.
    fn instead() -> Value;
}

/// `metadata.managedFields`: nobody asks for them.
#[derive(Debug, Default, Deserialize)]
#[serde(from = "IgnoredAny")]
struct Managed;

impl From<IgnoredAny> for Managed {
    fn from(_: IgnoredAny) -> Self {
        Managed
    }
}

impl Part for Managed {
    const NAME: &'static str = "managedFields";
    type Whole = ObjectMeta;

    fn instead() -> Value {
        Value::Null
    }
}

/// `spec.workload`.
#[derive(Debug, Default, Deserialize)]
struct Workload {
    #[serde(default)]
    manifests: Vec<Head>,
}

impl Part for Workload {
    const NAME: &'static str = "workload";
    type Whole = BundleSpec;

    fn instead() -> Value {
        Value::Object(Map::new())
    }
}

/// An object of which a field is read by itself.
struct Less<P: Part> {
    rest: P::Whole,
    taken: P,
}

impl<'de, P: Part> Deserialize<'de> for Less<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole<P>(PhantomData<P>);
        impl<'de, P: Part> Visitor<'de> for Whole<P> {
            type Value = Less<P>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Less<P>, A::Error> {
                let mut taken = P::default();
                let others = Others {
                    fields,
                    taken: &mut taken,
                    is_next: false,
                };
                let rest = P::Whole::deserialize(MapAccessDeserializer::new(others))?;
                Ok(Less { rest, taken })
            }
        }
        deserializer.deserialize_map(Whole(PhantomData))
    }
}

/// The fields of an object, one of which is taken out on the way.
struct Others<'a, A, P> {
    fields: A,
    taken: &'a mut P,
    /// Whether the value that comes next is that one's.
    is_next: bool,
}

impl<'de, A: MapAccess<'de>, P: Part> MapAccess<'de> for Others<'_, A, P> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.fields.next_key::<String>()? else {
            return Ok(None);
        };
        self.is_next = key == P::NAME;
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        if !self.is_next {
            return self.fields.next_value_seed(seed);
        }
        *self.taken = self.fields.next_value()?;
        seed.deserialize(P::instead()).map_err(A::Error::custom)
    }
}

/// Of a manifest its kind, and what stands directly in its spec; everything else, and what is no object, is `null`.
#[derive(Debug)]
struct Head(Value);

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level::Manifest.deserialize(deserializer).map(Head)
    }
}

/// Where in a manifest a value stands.
#[derive(Clone, Copy)]
enum Level {
    Manifest,
    /// A field of it.
    Field,
    /// A field of that.
    Leaf,
}

impl Level {
    /// Where the value of a field is; `None` where nothing is made of it.
    fn of(self, field: &str) -> Option<Level> {
        match self {
            Level::Manifest => matches!(field, "apiVersion" | "kind" | "spec").then_some(Level::Field),
            Level::Field => Some(Level::Leaf),
            Level::Leaf => None,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            match self.of(&key) {
                Some(level) => {
                    let value = fields.next_value_seed(level)?;
                    map.insert(key.into_owned(), value);
                }
                None => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bundle(manifests: &[Value]) -> Value {
        json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
            "metadata": {"name": "default.web", "namespace": "cluster-east", "uid": "u", "resourceVersion": "7",
                "generation": 3, "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e"],
                "managedFields": [{"manager": "hub", "operation": "Update", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:workload": {}}}}]},
            "spec": {"epoch": 2, "hash": "h", "workload": {"manifests": manifests}, "revision": "web-v1",
                "applicationRef": {"namespace": "default", "name": "web", "uid": "a"},
                "manifestConfigs": [{"resourceIdentifier": {"resource": "deployments", "name": "web"}}]},
            "status": {"hash": "h", "observedGeneration": 3}})
    }

    /// What is remembered of it, read either way.
    fn both(bundle: &Value) -> [Option<Observed>; 2] {
        let text = bundle.to_string();
        let slim: Slim = serde_json::from_str(&text).unwrap();
        [
            slim.observed(),
            Observed::of(serde_json::from_str(&text).unwrap()),
        ]
    }

    #[test]
    fn what_an_agent_says_that_cannot_be_read_counts_as_nothing_said() {
        let mut odd = bundle(&[]);
        odd["status"]["conditions"] = json!([{"type": "Applied", "status": "True", "reason": "R", "message": "",
            "lastTransitionTime": "yesterday"}]);
        let read: Slim = serde_json::from_value(odd).unwrap();
        let read = read.observed().unwrap();
        assert_eq!((read.status, read.resource_version.as_str()), (None, "7"));
        let mut none = bundle(&[]);
        none.as_object_mut().unwrap().remove("status");
        let read: Slim = serde_json::from_value(none).unwrap();
        assert_eq!(read.observed().unwrap().status, None);
    }

    #[test]
    fn a_slim_bundle_is_remembered_as_the_whole_one_is() {
        let workload = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec});
        let deep = json!({"template": {"spec": {"containers": [{"name": "a", "replicas": 9}]}}});
        for (manifests, replicas) in [
            (vec![], 0),
            (
                vec![workload(
                    "apps/v1",
                    "Deployment",
                    json!({"replicas": 5, "template": deep}),
                )],
                5,
            ),
            (vec![workload("apps/v1", "Deployment", deep)], 1),
            (
                vec![workload(
                    "batch/v1",
                    "Job",
                    json!({"parallelism": 3, "completions": 9}),
                )],
                3,
            ),
            (
                vec![
                    workload("apps/v1", "StatefulSet", json!({"replicas": "two"})),
                    workload("apps/v1", "ReplicaSet", json!({"replicas": null})),
                ],
                1,
            ),
            (
                vec![
                    workload("v1", "ConfigMap", json!({"replicas": 4})),
                    workload("apps/v1", "DaemonSet", json!({})),
                ],
                0,
            ),
            (
                vec![
                    workload("apps/v1", "Deployment", json!("odd")),
                    workload("apps/v1", "Deployment", json!([1, {"a": 2}])),
                ],
                0,
            ),
            (
                vec![
                    json!(null),
                    json!("text"),
                    json!([[1]]),
                    json!(1.5),
                    json!({"kind": {"a": 1}}),
                ],
                0,
            ),
        ] {
            let [slim, whole] = both(&bundle(&manifests));
            assert_eq!(slim, whole, "{manifests:?}");
            assert_eq!(slim.unwrap().replicas, replicas, "{manifests:?}");
        }
    }

    #[test]
    fn what_may_be_missing_may_be_missing() {
        let mut least =
            json!({"metadata": {"name": "a", "namespace": "cluster-b"}, "spec": {"workload": {}}});
        assert!(both(&least).iter().all(Option::is_some));
        least["metadata"]["namespace"] = json!("elsewhere");
        assert_eq!(both(&least), [None, None]);
        for broken in [
            json!({"metadata": {}}),
            json!({"metadata": {}, "spec": {"epoch": "x"}}),
        ] {
            assert!(
                serde_json::from_str::<Slim>(&broken.to_string()).is_err(),
                "{broken}"
            );
        }
    }
}
