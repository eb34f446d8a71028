//! Reading and writing the parts every Kubernetes object has.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memmem;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

/// The value at a path of object keys.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |v, key| v.get(key))
}

/// The string at a path of object keys.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// A string of `metadata`; empty if absent.
pub(crate) fn meta<'a>(value: &'a Value, key: &str) -> &'a str {
    text(value, &["metadata", key]).unwrap_or_default()
}

/// `metadata` for writing; made if absent.
pub(crate) fn meta_mut(value: &mut Value) -> Option<&mut Map<String, Value>> {
    value
        .as_object_mut()?
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()))
        .as_object_mut()
}

/// Sets (or with `None` removes) one entry of `metadata`.
pub(crate) fn set_meta(value: &mut Value, key: &str, to: Option<Value>) {
    if let Some(map) = meta_mut(value) {
        match to {
            Some(v) => map.insert(key.to_owned(), v),
            None => map.remove(key),
        };
    }
}

/// Sets (or with `None` removes) one top-level entry.
pub(crate) fn set(value: &mut Value, key: &str, to: Option<Value>) {
    if let Some(map) = value.as_object_mut() {
        match to {
            Some(v) => map.insert(key.to_owned(), v),
            None => map.remove(key),
        };
    }
}

/// The JSON of one top-level entry of an object, out of the JSON of the whole: no value is made of either.
pub(crate) fn slice<'b>(object: &'b [u8], key: &str) -> Option<&'b [u8]> {
    fn next<'b, T: Deserialize<'b>>(json: &'b [u8]) -> Option<(T, &'b [u8])> {
        let mut values = serde_json::Deserializer::from_slice(json).into_iter();
        let value = values.next()?.ok()?;
        Some((value, json.get(values.byte_offset()..)?))
    }
    let mut rest = object.strip_prefix(b"{")?;
    loop {
        let (name, after) = next::<Cow<'_, str>>(rest)?;
        let value = after.strip_prefix(b":")?;
        let (IgnoredAny, after) = next(value)?;
        if name == key {
            return value.get(..value.len() - after.len());
        }
        rest = after.strip_prefix(b",")?;
    }
}

/// The entry `key` of an object as an object, made (or replaced, if it is something else) when needed.
pub(crate) fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    let entry = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut()
}

/// `metadata.generation`; 0 if absent.
pub(crate) fn generation(value: &Value) -> i64 {
    at(value, &["metadata", "generation"])
        .and_then(Value::as_i64)
        .unwrap_or(0)
}

/// `metadata.finalizers`.
pub(crate) fn finalizers(value: &Value) -> Vec<&str> {
    let list = at(value, &["metadata", "finalizers"]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Takes a finalizer away.
pub(crate) fn drop_finalizer(value: &mut Value, finalizer: &str) {
    let kept: Vec<Value> = finalizers(value)
        .into_iter()
        .filter(|f| *f != finalizer)
        .map(Value::from)
        .collect();
    set_meta(value, "finalizers", (!kept.is_empty()).then(|| kept.into()));
}

/// The conditions of the status.
pub(crate) fn conditions(value: &Value) -> &[Value] {
    let list = at(value, &["status", "conditions"]).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// A condition of the status.
pub(crate) fn condition<'a>(value: &'a Value, ty: &str) -> Option<&'a Value> {
    conditions(value).iter().find(|c| text(c, &["type"]) == Some(ty))
}

/// Whether a condition of the status is true.
pub(crate) fn holds(value: &Value, ty: &str) -> bool {
    condition(value, ty).is_some_and(|c| text(c, &["status"]) == Some("True"))
}

/// Whether `metadata.deletionTimestamp` is set.
pub(crate) fn is_deleting(value: &Value) -> bool {
    !meta(value, "deletionTimestamp").is_empty()
}

/// One entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    #[serde(rename = "blockOwnerDeletion", default)]
    pub(crate) blocks: bool,
}

/// `metadata.ownerReferences`.
pub(crate) fn owners(value: &Value) -> Vec<Owner> {
    let list = at(value, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    let field = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    list.into_iter()
        .flatten()
        .map(|v| Owner {
            api_version: field(v, "apiVersion"),
            kind: field(v, "kind"),
            name: field(v, "name"),
            uid: field(v, "uid"),
            blocks: v
                .get("blockOwnerDeletion")
                .and_then(Value::as_bool)
                .unwrap_or(false),
        })
        .collect()
}

/// Takes the references to these owners away.
pub(crate) fn drop_owners(value: &mut Value, uids: &[&str]) {
    let names_one = |o: &&Value| text(o, &["uid"]).is_some_and(|uid| uids.contains(&uid));
    let kept: Vec<Value> = at(value, &["metadata", "ownerReferences"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|o| !names_one(o))
        .cloned()
        .collect();
    set_meta(value, "ownerReferences", (!kept.is_empty()).then(|| kept.into()));
}

/// Says in every reference to an owner that its deletion need not wait for this object.
pub(crate) fn unblock_owners(value: &mut Value) {
    let list = value.pointer_mut("/metadata/ownerReferences");
    let list = list.and_then(Value::as_array_mut).into_iter().flatten();
    for owner in list.filter_map(Value::as_object_mut) {
        if owner.get("blockOwnerDeletion") == Some(&Value::Bool(true)) {
            owner.insert("blockOwnerDeletion".into(), false.into());
        }
    }
}

/// Whose an object is and whether it is being deleted: all that its owner's end and its own ask for, and read in a fraction of
/// the time that the whole takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Head {
    pub(crate) uid: String,
    #[serde(rename = "ownerReferences")]
    pub(crate) owners: Vec<Owner>,
    deletion_timestamp: Option<String>,
}

impl Head {
    /// Of stored bytes.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Object {
            #[serde(default)]
            metadata: Head,
        }
        // One that is not quite as Kubernetes writes it is read as it is everywhere else.
        serde_json::from_slice(bytes)
            .map_or_else(|_| Self::of(&decode(bytes)), |Object { metadata }| metadata)
    }

    /// Whether these stored bytes may be of an object that has owners or is being deleted: a look that takes a twentieth of
    /// reading them, for who looks at every object. Nearly all are of neither kind.
    pub(crate) fn may_say(bytes: &[u8]) -> bool {
        let fields: [&[u8]; 2] = [b"\"ownerReferences\"", b"\"deletionTimestamp\""];
        fields.iter().any(|field| memmem::find(bytes, field).is_some())
    }

    /// Whether stored bytes are of an object that is being deleted.
    pub(crate) fn says_deleting(bytes: &[u8]) -> bool {
        Self::may_say(bytes) && Self::read(bytes).is_deleting()
    }

    fn of(value: &Value) -> Self {
        Self {
            uid: meta(value, "uid").to_owned(),
            owners: owners(value),
            deletion_timestamp: is_deleting(value).then(|| meta(value, "deletionTimestamp").to_owned()),
        }
    }

    /// As [`is_deleting`].
    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.as_ref().is_some_and(|at| !at.is_empty())
    }
}

/// Canonical bytes: compact JSON with sorted keys (`serde_json::Map` is ordered).
pub(crate) fn encode(value: &Value) -> Bytes {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    // Without the room that it grew by: an object is kept for long.
    Bytes::from(bytes.into_boxed_slice())
}

/// The value of stored bytes. Only bytes of [`encode`] are ever stored, so this gives the object back.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_default()
}

/// Whether two states of an object differ in nothing a client may see but `resourceVersion`.
pub(crate) fn same_but_version(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return a == b;
    };
    let keys = |m: &Map<String, Value>| m.keys().filter(|k| *k != "metadata").count();
    let body = keys(a) == keys(b) && a.iter().all(|(k, v)| k == "metadata" || b.get(k) == Some(v));
    body && match (
        a.get("metadata").and_then(Value::as_object),
        b.get("metadata").and_then(Value::as_object),
    ) {
        (Some(x), Some(y)) => {
            let keys = |m: &Map<String, Value>| m.keys().filter(|k| *k != "resourceVersion").count();
            keys(x) == keys(y)
                && x.iter()
                    .all(|(k, v)| k == "resourceVersion" || y.get(k) == Some(v))
        }
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_slice_is_the_json_of_an_entry_and_of_no_other() {
        let object = json!({"data": {"metadata": "of the data", "brace": "}\"{"}, "metadata": {"name": "é\\\"", "labels": {"a": "b"}},
            "number": -1.5e3, "spec": [1, {"metadata": {}}], "\"": true, "zero": null});
        let bytes = encode(&object);
        for (name, value) in object.as_object().unwrap() {
            assert_eq!(slice(&bytes, name), Some(&*encode(value)), "{name}");
        }
        assert_eq!(slice(&bytes, "brace"), None);
        for odd in [
            "",
            "{",
            "{}",
            "null",
            "[]",
            "{\"a\"",
            "{\"a\":1",
            "{\"a\":{}\"metadata\":1}",
            "{\"metadata\":",
            "{7:1}",
        ] {
            assert_eq!(slice(odd.as_bytes(), "metadata"), None, "{odd}");
        }
    }

    #[test]
    fn a_head_is_what_the_whole_object_says() {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u-a", "controller": true,
            "blockOwnerDeletion": true});
        for (owners, deleting) in [
            (
                json!([owner, {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "u-b"}]),
                false,
            ),
            (json!([]), true),
            // As nobody writes them.
            (json!([{"uid": "u-c"}]), true),
            (json!([{"uid": 7}, "who"]), false),
            (json!(null), true),
        ] {
            let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"metadata": "no"},
                "metadata": {"name": "c", "uid": "u", "ownerReferences": owners, "finalizers": ["f"],
                    "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {"f:uid": {}}}}]}});
            if deleting {
                set_meta(
                    &mut object,
                    "deletionTimestamp",
                    Some("2026-01-01T00:00:00Z".into()),
                );
            }
            let head = Head::read(&encode(&object));
            assert_eq!(head, Head::of(&object), "{object}");
            if head.is_deleting() || !head.owners.is_empty() {
                assert!(Head::may_say(&encode(&object)), "{object}");
            }
            assert_eq!(
                (head.is_deleting(), head.uid.as_str()),
                (deleting, "u"),
                "{object}"
            );
            assert_eq!(head.owners, super::owners(&object));
        }
        for odd in [
            "{}",
            "null",
            "7",
            "{\"metadata\":null}",
            "{\"metadata\":{\"deletionTimestamp\":null}}",
            "{",
        ] {
            assert_eq!(Head::read(odd.as_bytes()), Head::default(), "{odd}");
        }
        let plain = json!({"metadata": {"name": "c"}, "data": {"ownerReferencesOf": "them"}});
        assert!(!Head::may_say(&encode(&plain)));
    }
}
