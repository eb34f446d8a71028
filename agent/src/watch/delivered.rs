//! Delivered: a Bundle as a watch delivers it. A list is one JSON document, and a reader bounds how deep a document may
//! be nested: one manifest that is too deep must not keep the agent from reading every other Bundle.

use kube::Resource;
use kube::api::ObjectMeta;
use kube::core::DynamicObject;
use roundhouse_api::bundle::Bundle;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// Manifests that are nested deeper than this many levels are read as `null`, which is no object. It leaves room for what
/// is around a manifest in a list of Bundles, and around its copy in a list of ledgers: `serde_json` reads 128 levels.
pub(crate) const MAX_MANIFEST_DEPTH: usize = 100;

/// A Bundle of any spec.
#[derive(Debug, Clone)]
pub(crate) struct Delivered(pub(crate) DynamicObject);

impl<'de> Deserialize<'de> for Delivered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Body {
            #[serde(default)]
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Spec,
            #[serde(default)]
            status: Value,
        }
        #[derive(Default)]
        struct Spec(Value);
        impl<'de> Deserialize<'de> for Spec {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let is_cut = Cell::new(false);
                let spec = Shallow {
                    at: At::Spec,
                    left: MAX_MANIFEST_DEPTH,
                    is_cut: &is_cut,
                };
                spec.deserialize(deserializer).map(Spec)
            }
        }
        let Body {
            metadata,
            spec,
            status,
        } = Body::deserialize(deserializer)?;
        Ok(Delivered(DynamicObject {
            types: None,
            metadata,
            data: json!({"spec": spec.0, "status": status}),
        }))
    }
}

impl Resource for Delivered {
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
        &self.0.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

/// Where in a Bundle a value is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    Spec,
    Workload,
    Manifests,
    Elsewhere,
}

/// Reads a value down to a depth, and skips what is below it.
#[derive(Clone, Copy)]
struct Shallow<'a> {
    at: At,
    /// Levels that may follow.
    left: usize,
    /// Whether something was skipped.
    is_cut: &'a Cell<bool>,
}

impl<'a> Shallow<'a> {
    fn inner(self, at: At) -> Self {
        Shallow {
            at,
            left: self.left - 1,
            ..self
        }
    }

    /// Whether what follows is too deep.
    fn is_full(self) -> bool {
        if self.left == 0 {
            self.is_cut.set(true);
        }
        self.left == 0
    }
}

impl<'de> DeserializeSeed<'de> for Shallow<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shallow<'_> {
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

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        if self.is_full() {
            // Skipping does not recurse.
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut list = Vec::new();
        loop {
            let is_cut = Cell::new(false);
            let item = match self.at {
                At::Manifests => Shallow {
                    at: At::Elsewhere,
                    left: MAX_MANIFEST_DEPTH,
                    is_cut: &is_cut,
                },
                _ => self.inner(At::Elsewhere),
            };
            let Some(item) = items.next_element_seed(item)? else {
                return Ok(Value::Array(list));
            };
            list.push(if is_cut.get() { Value::Null } else { item });
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        if self.is_full() {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let at = match (self.at, key.as_str()) {
                (At::Spec, "workload") => At::Workload,
                (At::Workload, "manifests") => At::Manifests,
                _ => At::Elsewhere,
            };
            let value = fields.next_value_seed(self.inner(at))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::decode::decode;
    use crate::bundle::Held;
    use kube::core::{ObjectList, WatchEvent};

    /// A ConfigMap with this many levels in all.
    fn deep(levels: usize) -> String {
        let inner = levels - 1;
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m","namespace":"x"}},"data":{}1{}}}"#,
            "[".repeat(inner),
            "]".repeat(inner)
        )
    }

    fn bundle(name: &str, manifests: &[String]) -> String {
        format!(
            r#"{{"apiVersion":"roundhouse.dev/v1alpha1","kind":"Bundle","metadata":{{"name":"{name}","uid":"{name}"}},"spec":{{"revision":"v1","workload":{{"manifests":[{}]}}}},"status":{{"phase":"Ready"}}}}"#,
            manifests.join(",")
        )
    }

    #[test]
    fn a_manifest_that_is_too_deep_is_the_trouble_of_its_own_bundle() {
        let plain = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"x"}}"#;
        for levels in [MAX_MANIFEST_DEPTH + 1, 121, 125, 1_000, 100_000] {
            let of_many = bundle(
                "deep",
                &[plain.to_owned(), deep(levels), deep(MAX_MANIFEST_DEPTH)],
            );
            let page = format!(
                r#"{{"apiVersion":"v1","kind":"BundleList","metadata":{{"resourceVersion":"7"}},"items":[{of_many},{}]}}"#,
                bundle("plain", &[plain.to_owned()])
            );
            let list: ObjectList<Delivered> = serde_json::from_str(&page).unwrap();
            let mut held = list.items.into_iter().map(|bundle| Held::of(bundle.0));
            let deep = held.next().unwrap();
            assert_eq!(deep.revision.as_deref(), Some("v1"));
            assert!(deep.status.is_some());
            let manifests = deep.spec().unwrap().workload.manifests;
            let depth = std::iter::successors(manifests[2].get("data"), |value| value.get(0)).count();
            assert_eq!(depth, MAX_MANIFEST_DEPTH, "what is not too deep is whole");
            let mut of_one = manifests;
            of_one.truncate(2);
            let decoded = decode(of_one);
            assert_eq!(decoded.manifests.len(), 1, "{levels}");
            assert_eq!(
                (decoded.failed[0].ordinal, decoded.failed[0].error.reason()),
                (1, "DecodingFailed")
            );
            let message = decoded.failed[0].error.to_string();
            assert!(message.contains("deeper than 100 levels"), "{message}");
            let plain = held.next().unwrap();
            assert_eq!(
                decode(plain.spec().unwrap().workload.manifests).manifests.len(),
                1
            );
            let event = format!(r#"{{"type":"ADDED","object":{of_many}}}"#);
            assert!(matches!(
                serde_json::from_str(&event),
                Ok(WatchEvent::Added(Delivered(_)))
            ));
        }
    }

    #[test]
    fn everything_else_is_read_as_it_is() {
        let spec = json!({"workload": {"manifests": [{"a": [1, -2, 2.5, "t", true, null, {}, []]}, "text", null]},
            "applicationRef": {"uid": "u"}, "epoch": 18446744073709551615_u64, "manifestConfigs": [{"x": {"y": []}}]});
        let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": {"phase": "Ready"}});
        let Delivered(read) = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!(read.data, json!({"spec": spec, "status": {"phase": "Ready"}}));
        for odd in [
            json!({"metadata": {}}),
            json!({"spec": null}),
            json!({"spec": {"workload": []}}),
            json!({"spec": "x"}),
        ] {
            let read: Result<Delivered, _> = serde_json::from_str(&odd.to_string());
            assert!(read.is_ok(), "{odd}");
        }
    }
}
