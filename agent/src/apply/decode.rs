//! Decode: which manifests are objects at all. Each one that is not fails alone, by ordinal.

use crate::object::{ObjectKey, split_api_version};
use crate::watch::delivered::MAX_MANIFEST_DEPTH;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use k8s_openapi::ByteString;
use roundhouse_api::bundle::MAX_MANIFEST_BYTES;
use roundhouse_api::hash;
use roundhouse_api::names::annotation;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Fields of `metadata` that only a server may write. `ownerReferences` would name uids of another cluster, and
/// Kubernetes' collector would take the object away.
const SERVER_METADATA: [&str; 9] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Base64 as Go's `encoding/base64` reads it, but for line breaks.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// A manifest that is an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    /// Place in the bundle, from 0.
    pub(crate) ordinal: u32,
    /// Which object.
    pub(crate) key: ObjectKey,
    /// API version.
    pub(crate) version: String,
    /// `roundhouse.dev/desired-hash` of the manifest as it came.
    pub(crate) digest: String,
    /// The object without what only a server may write.
    pub(crate) object: Value,
}

impl Manifest {
    /// `apiVersion`: `group/version`, or the version alone for the core group.
    pub(crate) fn api_version(&self) -> String {
        if self.key.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.key.group, self.version)
        }
    }
}

/// A manifest that is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Undecodable {
    /// Place in the bundle, from 0.
    pub(crate) ordinal: u32,
    /// Why.
    pub(crate) error: DecodeError,
    /// What can be read of its identity.
    pub(crate) identity: PartialIdentity,
}

/// What can be read of the identity of a manifest that does not decode; `None` is "may be anything".
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartialIdentity {
    pub(crate) group: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
}

impl PartialIdentity {
    /// Whether the broken manifest may have been meant as `key`: such an object is not pruned.
    pub(crate) fn may_be(&self, key: &ObjectKey) -> bool {
        let fits = |part: &Option<String>, whole: &str| part.as_deref().is_none_or(|part| part == whole);
        fits(&self.group, &key.group)
            && fits(&self.kind, &key.kind)
            && fits(&self.namespace, &key.namespace)
            && fits(&self.name, &key.name)
    }
}

/// Why a manifest is no object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the manifest is {found}, not an object")]
    NotAnObject { found: &'static str },
    /// As a watch delivers a manifest that is too deep; see [`MAX_MANIFEST_DEPTH`].
    #[error("the manifest is null, or nested deeper than {MAX_MANIFEST_DEPTH} levels: write it flatter")]
    Null,
    #[error("{field} is missing or no text: every manifest needs apiVersion, kind and metadata.name")]
    Missing { field: &'static str },
    #[error("apiVersion {api_version:?} is not `version` or `group/version`")]
    ApiVersion { api_version: String },
    #[error(
        "metadata.generateName without metadata.name: an object that is applied again needs a fixed name"
    )]
    GenerateName,
    #[error("{key} is already manifest {first} of this bundle: remove one of them")]
    Duplicate { key: ObjectKey, first: u32 },
    #[error("{field} is {found}: stringData has texts by key; put them in quotes")]
    StringData { field: String, found: &'static str },
    #[error("the manifest has {bytes} bytes, more than the limit of {MAX_MANIFEST_BYTES}")]
    TooLarge { bytes: usize },
}

impl DecodeError {
    /// The reason in a condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            DecodeError::NotAnObject { .. }
            | DecodeError::Null
            | DecodeError::Missing { .. }
            | DecodeError::StringData { .. }
            | DecodeError::ApiVersion { .. } => "DecodingFailed",
            DecodeError::GenerateName => "FoundGenerateName",
            DecodeError::Duplicate { .. } => "Duplicated",
            DecodeError::TooLarge { .. } => "TooLarge",
        }
    }
}

/// All manifests of a bundle, sorted into objects and failures; both in the order of the bundle.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) failed: Vec<Undecodable>,
}

/// Digests of the manifests of one content, by ordinal, that were computed and found small enough before.
pub(crate) type Digests = BTreeMap<u32, String>;

impl Decoded {
    /// The digests, for the next time that this content is decoded.
    pub(crate) fn digests(&self) -> Digests {
        let each = self.manifests.iter();
        each.map(|manifest| (manifest.ordinal, manifest.digest.clone()))
            .collect()
    }

    /// Takes out the manifests with these ordinals: each means the object that the manifest with the other ordinal means.
    pub(crate) fn refuse_repeated(&mut self, later: &BTreeMap<u32, u32>) {
        if later.is_empty() {
            return;
        }
        let manifests = std::mem::take(&mut self.manifests);
        for manifest in manifests {
            let Some(&first) = later.get(&manifest.ordinal) else {
                self.manifests.push(manifest);
                continue;
            };
            self.failed.push(Undecodable {
                ordinal: manifest.ordinal,
                identity: identity(&manifest.object),
                error: DecodeError::Duplicate {
                    key: manifest.key,
                    first,
                },
            });
        }
        self.failed.sort_by_key(|failed| failed.ordinal);
    }
}

/// Decodes the manifests of a bundle. Of two manifests for one object the first counts.
pub(crate) fn decode(manifests: Vec<Value>) -> Decoded {
    decode_again(manifests, &Digests::new())
}

/// As [`decode`], of a content whose digests are known.
pub(crate) fn decode_again(manifests: Vec<Value>, known: &Digests) -> Decoded {
    let mut decoded = Decoded::default();
    let mut seen: BTreeMap<ObjectKey, u32> = BTreeMap::new();
    for (ordinal, manifest) in (0_u32..).zip(manifests) {
        let read = match known.get(&ordinal) {
            Some(digest) => Ok(digest.clone()),
            None => checked_digest(&manifest),
        };
        let read = read.and_then(|digest| {
            let named = named(&manifest)?;
            check_string_data(&named.0, &manifest)?;
            Ok((digest, named))
        });
        let (digest, (key, version)) = match read {
            Ok(read) => read,
            Err(error) => {
                decoded.failed.push(Undecodable {
                    ordinal,
                    error,
                    identity: identity(&manifest),
                });
                continue;
            }
        };
        if let Some(&first) = seen.get(&key) {
            decoded.failed.push(Undecodable {
                ordinal,
                identity: identity(&manifest),
                error: DecodeError::Duplicate { key, first },
            });
            continue;
        }
        seen.insert(key.clone(), ordinal);
        let object = wish(&key, manifest);
        decoded.manifests.push(Manifest {
            ordinal,
            key,
            version,
            digest,
            object,
        });
    }
    decoded
}

fn checked_digest(manifest: &Value) -> Result<String, DecodeError> {
    let bytes = hash::weight(manifest);
    if bytes > MAX_MANIFEST_BYTES {
        return Err(DecodeError::TooLarge { bytes });
    }
    Ok(hash::of_manifest(manifest))
}

/// Which object a manifest names, and its API version.
fn named(manifest: &Value) -> Result<(ObjectKey, String), DecodeError> {
    if manifest.is_null() {
        return Err(DecodeError::Null);
    }
    let Value::Object(object) = manifest else {
        return Err(DecodeError::NotAnObject {
            found: type_name(manifest),
        });
    };
    let api_version = required(object, "apiVersion", "apiVersion")?;
    let kind = required(object, "kind", "kind")?;
    let Some((group, version)) = split_api_version(&api_version) else {
        return Err(DecodeError::ApiVersion { api_version });
    };
    let Some(Value::Object(metadata)) = object.get("metadata") else {
        return Err(DecodeError::Missing { field: "metadata" });
    };
    let name = match required(metadata, "name", "metadata.name") {
        Ok(name) => name,
        Err(_) if metadata.contains_key("generateName") => return Err(DecodeError::GenerateName),
        Err(error) => return Err(error),
    };
    let namespace = match metadata.get("namespace") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(namespace)) => namespace.clone(),
        Some(_) => {
            return Err(DecodeError::Missing {
                field: "metadata.namespace",
            });
        }
    };
    let key = ObjectKey {
        group: group.to_owned(),
        kind,
        namespace,
        name,
    };
    Ok((key, version.to_owned()))
}

/// The object without what only a server may write.
fn wish(key: &ObjectKey, mut manifest: Value) -> Value {
    let Value::Object(object) = &mut manifest else {
        return manifest;
    };
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        for field in SERVER_METADATA {
            metadata.remove(field);
        }
        metadata.remove("generateName");
        drop_foreign_stamps(metadata);
    }
    object.remove("status");
    if key.is("", "Secret") {
        respell_base64(object, "data");
        encode_string_data(object);
    }
    if key.is("", "ConfigMap") {
        respell_base64(object, "binaryData");
    }
    manifest
}

/// Base64 as the API server has it: it takes line breaks, and bits behind the last byte, and stores neither. What does not decode is
/// its to refuse.
fn respell_base64(object: &mut Map<String, Value>, field: &str) {
    let values = object.get_mut(field).and_then(Value::as_object_mut);
    for value in values.into_iter().flat_map(Map::values_mut) {
        if let Value::String(text) = value {
            let line = text.replace(['\r', '\n'], "");
            if let Ok(bytes) = LENIENT.decode(line) {
                *text = LENIENT.encode(bytes);
            }
        }
    }
}

/// Stamps that a manifest copied from a live object brings along are not the user's wish, and a last-applied copy inside
/// a last-applied copy grows without end. The words that opt out of the copy stay.
fn drop_foreign_stamps(metadata: &mut Map<String, Value>) {
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    for stamp in [
        annotation::OWNED_BY,
        annotation::DESIRED_HASH,
        annotation::FENCED,
        annotation::KUBECTL_LAST_APPLIED,
    ] {
        annotations.remove(stamp);
    }
    let opts_out = |copy: &Value| matches!(copy.as_str(), Some("-" | "skip"));
    if !annotations.get(annotation::LAST_APPLIED).is_some_and(opts_out) {
        annotations.remove(annotation::LAST_APPLIED);
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// The API server refuses a value of `stringData` that is no text; `null` is the empty one. The value is not repeated: it
/// may be a secret.
fn check_string_data(key: &ObjectKey, manifest: &Value) -> Result<(), DecodeError> {
    let texts = manifest.get("stringData").filter(|_| key.is("", "Secret"));
    match texts {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(texts)) => {
            let wrong = texts
                .iter()
                .find(|(_, text)| !matches!(text, Value::String(_) | Value::Null));
            wrong.map_or(Ok(()), |(key, value)| {
                Err(DecodeError::StringData {
                    field: format!("stringData.{key}"),
                    found: type_name(value),
                })
            })
        }
        Some(other) => Err(DecodeError::StringData {
            field: "stringData".to_owned(),
            found: type_name(other),
        }),
    }
}

/// `stringData` is write-only: the live object never shows it, so that every pass would find a difference. It is moved
/// to `data`, as the API server does.
fn encode_string_data(secret: &mut Map<String, Value>) {
    let Some(Value::Object(texts)) = secret.remove("stringData") else {
        return;
    };
    let data = secret.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    let Some(data) = data.as_object_mut() else { return };
    for (key, text) in texts {
        let text = match text {
            Value::String(text) => text,
            _ => String::new(),
        };
        if let Ok(encoded) = serde_json::to_value(ByteString(text.into_bytes())) {
            data.insert(key, encoded);
        }
    }
}

fn required(map: &Map<String, Value>, key: &str, field: &'static str) -> Result<String, DecodeError> {
    match map.get(key).and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(DecodeError::Missing { field }),
    }
}

fn identity(manifest: &Value) -> PartialIdentity {
    let read = |pointer: &str| {
        manifest
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|t| !t.is_empty())
    };
    PartialIdentity {
        group: read("/apiVersion")
            .and_then(split_api_version)
            .map(|(group, _)| group.to_owned()),
        kind: read("/kind").map(str::to_owned),
        namespace: read("/metadata/namespace").map(str::to_owned),
        name: read("/metadata/name").map(str::to_owned),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_decoded_again_is_decoded_alike() {
        let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let all = vec![map("a"), json!("no object"), map("b"), map("a")];
        let first = decode(all.clone());
        assert_eq!(first.digests().into_keys().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(decode_again(all, &first.digests()), first);
    }

    #[test]
    fn each_bad_manifest_fails_alone_by_ordinal() {
        let good =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "x"}});
        let named = |name: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": name});
        let cases = [
            (json!("text"), "DecodingFailed"),
            (Value::Null, "DecodingFailed"),
            (
                json!({"kind": "ConfigMap", "metadata": {"name": "b"}}),
                "DecodingFailed",
            ),
            (
                json!({"apiVersion": "v1", "metadata": {"name": "b"}}),
                "DecodingFailed",
            ),
            (
                json!({"apiVersion": "a/b/c", "kind": "X", "metadata": {"name": "b"}}),
                "DecodingFailed",
            ),
            (json!({"apiVersion": "v1", "kind": "ConfigMap"}), "DecodingFailed"),
            (named(json!({})), "DecodingFailed"),
            (named(json!({"name": 7})), "DecodingFailed"),
            (named(json!({"name": "b", "namespace": 7})), "DecodingFailed"),
            (named(json!({"generateName": "b-"})), "FoundGenerateName"),
            (good.clone(), "Duplicated"),
            (
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"},
                       "data": {"x": "y".repeat(MAX_MANIFEST_BYTES)}}),
                "TooLarge",
            ),
        ];
        for (bad, reason) in cases {
            let decoded = decode(vec![good.clone(), bad]);
            assert_eq!(decoded.manifests.len(), 1, "{reason}");
            assert_eq!(decoded.manifests[0].ordinal, 0);
            assert_eq!(decoded.failed.len(), 1, "{reason}");
            assert_eq!(decoded.failed[0].ordinal, 1);
            assert_eq!(
                decoded.failed[0].error.reason(),
                reason,
                "{}",
                decoded.failed[0].error
            );
        }
    }

    #[test]
    fn what_only_a_server_may_write_is_left_out() {
        let manifest = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 1},
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "creationTimestamp": null,
                         "ownerReferences": [{"uid": "x"}], "labels": {"a": "b"}}});
        let decoded = decode(vec![manifest.clone()]);
        let got = &decoded.manifests[0];
        assert_eq!(
            got.object,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"a": "b"}}})
        );
        assert_eq!((got.key.group.as_str(), got.version.as_str()), ("apps", "v1"));
        assert_eq!(got.digest, hash::of_manifest(&manifest));
    }

    #[test]
    fn string_data_of_a_secret_becomes_data() {
        let decoded = decode(vec![
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"a": "b25l"}, "stringData": {"a": "two", "b": "three"}}),
        ]);
        assert_eq!(
            decoded.manifests[0].object["data"],
            json!({"a": "dHdv", "b": "dGhyZWU="})
        );
        assert!(decoded.manifests[0].object.get("stringData").is_none());
    }

    #[test]
    fn base64_is_as_the_server_writes_it() {
        let of = |kind: &str, field: &str, text: &str| {
            let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "s"}});
            object[field] = json!({"a": text});
            decode(vec![object]).manifests[0].object[field]["a"].clone()
        };
        for (kind, field) in [("Secret", "data"), ("ConfigMap", "binaryData")] {
            for (text, expected) in [
                ("aGVs\nbG8=\n", "aGVsbG8="),
                ("aGVs\r\nbG8=", "aGVsbG8="),
                ("aGVsbG8=", "aGVsbG8="),
                ("aGVsbG9=", "aGVsbG8="),
                ("", ""),
                // The server says what is wrong with it.
                ("aGVs bG8=", "aGVs bG8="),
                ("aGVsbG8", "aGVsbG8"),
            ] {
                assert_eq!(of(kind, field, text), expected, "{kind} {text:?}");
            }
        }
        assert_eq!(of("ConfigMap", "data", "aGVs\nbG8=\n"), "aGVs\nbG8=\n");
        assert_eq!(of("Widget", "data", "aGVs\nbG8=\n"), "aGVs\nbG8=\n");
    }

    #[test]
    fn string_data_that_is_no_text_is_refused_by_its_key_and_never_repeated() {
        let secret = |texts: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": texts});
        for (texts, says) in [
            (json!({"port": 54321}), "stringData.port is a number"),
            (json!({"a": "one", "on": true}), "stringData.on is a boolean"),
            (
                json!({"nested": {"a": "hunter2"}}),
                "stringData.nested is an object",
            ),
            (json!(["hunter2"]), "stringData is a list"),
        ] {
            let decoded = decode(vec![secret(texts.clone()), secret(json!({"a": "one"}))]);
            assert_eq!(decoded.manifests.len(), 1, "{texts}");
            let failed = &decoded.failed[0];
            assert_eq!((failed.ordinal, failed.error.reason()), (0, "DecodingFailed"));
            let message = failed.error.to_string();
            assert!(message.starts_with(says), "{message}");
            assert!(
                !message.contains("hunter2") && !message.contains("54321"),
                "{message}"
            );
        }
        let decoded = decode(vec![secret(json!({"empty": null}))]);
        assert_eq!(decoded.manifests[0].object["data"], json!({"empty": ""}));
        // Of any other kind it is a field like others.
        let custom = json!({"apiVersion": "x.io/v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": 1}});
        assert_eq!(decode(vec![custom]).failed, []);
    }

    #[test]
    fn a_broken_manifest_may_be_what_its_readable_parts_allow() {
        let key = ObjectKey {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: "x".into(),
            name: "a".into(),
        };
        let cases = [
            (json!("text"), true),
            (json!({"kind": "Deployment"}), true),
            (json!({"kind": "ConfigMap"}), false),
            (json!({"kind": "Deployment", "metadata": {"name": "a"}}), true),
            (json!({"kind": "Deployment", "metadata": {"name": "b"}}), false),
            (
                json!({"apiVersion": "batch/v1", "metadata": {"name": "a"}}),
                false,
            ),
            (json!({"metadata": {"name": "a", "namespace": "y"}}), false),
        ];
        for (manifest, expected) in cases {
            let decoded = decode(vec![manifest.clone()]);
            assert_eq!(decoded.failed[0].identity.may_be(&key), expected, "{manifest}");
        }
    }
}
