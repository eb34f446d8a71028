//! `/openapi/v2` in the protobuf encoding of `gnostic`, the only one kubectl asks for: for `explain
//! --output=plaintext-openapiv2`, and to check kinds that no OpenAPI v3 document has, such as `List`.
//!
//! Only definitions are given, no paths. Source of the field numbers: `openapiv2/OpenAPIv2.proto` of gnostic.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::openapi::{REF, definitions};
use crate::server::Core;

/// The media type.
pub(crate) const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Deepest schema written: deeper ones are left open.
const MAX_DEPTH: usize = 64;

/// A message that is being written.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut n: u64) {
        while n >= 0x80 {
            // The low seven bits, and that more follow.
            self.0.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn flag(&mut self, field: u64, on: bool) {
        self.varint(field << 3);
        self.varint(on.into());
    }

    fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }
}

/// The document.
pub(super) fn document(core: &Core) -> Bytes {
    let mut info = Message::default();
    info.text(1, "Kubernetes");
    info.text(2, super::VERSION);
    let mut all = Message::default();
    for (name, schema) in definitions(core) {
        all.message(1, &named(&name, &schema, 0));
    }
    let mut document = Message::default();
    document.text(1, "2.0");
    document.message(2, &info);
    document.message(8, &Message::default());
    document.message(9, &all);
    Bytes::from(document.0)
}

fn named(name: &str, value: &Value, depth: usize) -> Message {
    let mut out = Message::default();
    out.text(1, name);
    out.message(2, &schema(value, depth));
    out
}

/// The name a schema refers to, directly or as the one part of an `allOf`.
fn reference(value: &Value) -> Option<&str> {
    let direct = |v: &Value| v.get("$ref").and_then(Value::as_str).map(str::len);
    let found = match value.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) if direct(one).is_some() => one.get("$ref"),
        _ => value.get("$ref"),
    };
    found?.as_str()?.strip_prefix(REF)
}

fn schema(value: &Value, depth: usize) -> Message {
    let mut out = Message::default();
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    out.text(4, text("description"));
    if let Some(name) = reference(value) {
        // Nothing else may stand beside it.
        out.text(1, &format!("#/definitions/{name}"));
        return out;
    }
    out.text(2, text("format"));
    let required = value.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        out.text(19, name);
    }
    if !text("type").is_empty() {
        let mut kind = Message::default();
        kind.text(1, text("type"));
        out.message(22, &kind);
    }
    if depth < MAX_DEPTH {
        parts(&mut out, value, depth + 1);
    }
    if let Some(kinds) = value.get("x-kubernetes-group-version-kind") {
        let mut any = Message::default();
        // JSON is YAML, too.
        any.text(2, &kinds.to_string());
        let mut extension = Message::default();
        extension.text(1, "x-kubernetes-group-version-kind");
        extension.message(2, &any);
        out.message(31, &extension);
    }
    out
}

fn parts(out: &mut Message, value: &Value, depth: usize) {
    match value.get("additionalProperties") {
        Some(Value::Bool(on)) => {
            let mut item = Message::default();
            item.flag(2, *on);
            out.message(21, &item);
        }
        Some(inner @ Value::Object(_)) => {
            let mut item = Message::default();
            item.message(1, &schema(inner, depth));
            out.message(21, &item);
        }
        _ => {}
    }
    if let Some(inner @ Value::Object(_)) = value.get("items") {
        let mut item = Message::default();
        item.message(1, &schema(inner, depth));
        out.message(23, &item);
    }
    if let Some(properties) = value.get("properties").and_then(Value::as_object) {
        let mut all = Message::default();
        for (name, property) in properties {
            all.message(1, &named(name, property, depth));
        }
        out.message(25, &all);
    }
}

/// The document for clients that read JSON: without definitions, as nobody does.
pub(super) fn plain() -> Value {
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": super::VERSION}, "paths": {}, "definitions": Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_format() {
        let value = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "array", "items": {"type": "string"}}, "m": {"allOf": [{"$ref": format!("{REF}x.M")}], "description": "d"}}});
        let out = schema(&value, 0).0;
        let has = |part: &[u8]| out.windows(part.len()).any(|w| w == part);
        // Field 19 is the list of required names, 22 the type, 1 a reference.
        assert!(has(&[19 << 3 & 0x7f | 2 | 0x80, 1, 1, b'a']), "{out:?}");
        assert!(has(b"\n\x11#/definitions/x.M"), "{out:?}");
        let mut long = Message::default();
        long.varint(300);
        assert_eq!(long.0, [0xac, 2]);
    }
}
