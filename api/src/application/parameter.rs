//! Where an input goes: `patch.to`, `value.spec.containers[0].image`, `headers["x-y"]`.

use serde_json::{Map, Value};
use std::fmt;

/// Longest key, in bytes.
const MAX_TEXT: usize = 1024;
/// Deepest key.
const MAX_DEPTH: usize = 32;

/// A path into properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterKey {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Field(String),
    Index(usize),
}

/// Why a key does not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no path ({reason}): write it as in a.b[0].c or a[\"b.c\"]")]
pub struct ParameterKeyError {
    text: String,
    reason: &'static str,
}

/// Why a value cannot be put where a key says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct Unset {
    key: String,
    reason: String,
}

impl ParameterKey {
    /// Reads a key.
    ///
    /// # Errors
    /// [`ParameterKeyError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ParameterKeyError> {
        let wrong = |reason| ParameterKeyError {
            text: text.chars().take(64).collect(),
            reason,
        };
        if text.len() > MAX_TEXT {
            return Err(wrong("it is too long"));
        }
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            if segments.len() >= MAX_DEPTH {
                return Err(wrong("it is too deep"));
            }
            if let Some(inner) = rest.strip_prefix('[') {
                let (segment, after) = bracket(inner).ok_or_else(|| wrong("a bracket is not closed"))?;
                segments.push(segment.ok_or_else(|| wrong("an index is no number"))?);
                rest = after;
                continue;
            }
            if !segments.is_empty() {
                rest = rest.strip_prefix('.').ok_or_else(|| wrong("a '.' is missing"))?;
            }
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (field, after) = rest.split_at(end);
            if field.is_empty() {
                return Err(wrong("a name is empty"));
            }
            segments.push(Segment::Field(field.to_owned()));
            rest = after;
        }
        if segments.is_empty() {
            return Err(wrong("it is empty"));
        }
        Ok(ParameterKey {
            text: text.to_owned(),
            segments,
        })
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name that it begins with; empty if that is an index.
    pub fn root(&self) -> &str {
        match self.segments.first() {
            Some(Segment::Field(name)) => name,
            _ => "",
        }
    }

    /// As a JSON pointer (RFC 6901).
    pub fn pointer(&self) -> String {
        let mut pointer = String::new();
        for segment in &self.segments {
            pointer.push('/');
            match segment {
                Segment::Field(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
                Segment::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer
    }

    /// Puts a value there; maps that are missing on the way are made, and a list grows by one at most.
    ///
    /// # Errors
    /// [`Unset`]: something on the way is no map or list, or an index is beyond the end.
    pub fn set(&self, root: &mut Value, value: Value) -> Result<(), Unset> {
        let fail = |reason: String| Unset {
            key: self.text.clone(),
            reason,
        };
        let mut here = root;
        for segment in &self.segments {
            if here.is_null() {
                *here = match segment {
                    Segment::Field(_) => Value::Object(Map::new()),
                    Segment::Index(_) => Value::Array(Vec::new()),
                };
            }
            here = match (segment, here) {
                (Segment::Field(name), Value::Object(map)) => map.entry(name.clone()).or_insert(Value::Null),
                (Segment::Index(index), Value::Array(list)) => {
                    let length = list.len();
                    if *index == length {
                        list.push(Value::Null);
                    }
                    list.get_mut(*index)
                        .ok_or_else(|| fail(format!("there is no entry {index} in a list of {length}")))?
                }
                (Segment::Field(name), _) => {
                    return Err(fail(format!("{name:?} is asked of something that is no map")));
                }
                (Segment::Index(index), _) => {
                    return Err(fail(format!(
                        "entry {index} is asked of something that is no list"
                    )));
                }
            };
        }
        *here = value;
        Ok(())
    }
}

/// What stands in a bracket, and what is behind it.
fn bracket(inner: &str) -> Option<(Option<Segment>, &str)> {
    let Some(quote) = inner.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let (index, after) = inner.split_once(']')?;
        let digits = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
        let index = index.parse().ok().filter(|_| digits);
        return Some((index.map(Segment::Index), after));
    };
    let (name, after) = inner.get(1..)?.split_once(quote)?;
    Some((Some(Segment::Field(name.to_owned())), after.strip_prefix(']')?))
}

impl fmt::Display for ParameterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(root: Value, key: &str) -> Result<Value, String> {
        let mut root = root;
        let key = ParameterKey::parse(key).map_err(|error| error.to_string())?;
        key.set(&mut root, json!(7)).map_err(|error| error.to_string())?;
        Ok(root)
    }

    #[test]
    fn values_are_put_where_keys_say() {
        for (root, key, expected) in [
            (json!({}), "a", json!({"a": 7})),
            (Value::Null, "a.b", json!({"a": {"b": 7}})),
            (json!({"a": [1, {"b": 2}]}), "a[1].b", json!({"a": [1, {"b": 7}]})),
            (json!({"a": [1]}), "a[1]", json!({"a": [1, 7]})),
            (json!({}), "a[0].b", json!({"a": [{"b": 7}]})),
            (json!({}), "a[\"b.c\"]['d]']", json!({"a": {"b.c": {"d]": 7}}})),
            (json!([1]), "[0]", json!([7])),
            (json!({"a": {"b": 1}}), "a", json!({"a": 7})),
        ] {
            assert_eq!(set(root, key), Ok(expected), "{key}");
        }
        for (root, key, says) in [
            (
                json!({"a": 1}),
                "a.b",
                "a.b: \"b\" is asked of something that is no map",
            ),
            (
                json!({"a": [1]}),
                "a[3]",
                "a[3]: there is no entry 3 in a list of 1",
            ),
            (json!({"a": {}}), "a[0]", "no list"),
            (json!({}), "", "it is empty"),
            (json!({}), "a..b", "a name is empty"),
            (json!({}), "a[", "a bracket is not closed"),
            (json!({}), "a[x]", "an index is no number"),
            (json!({}), "a[+1]", "an index is no number"),
            (json!({}), "a[0]b", "a '.' is missing"),
            (json!({}), &"a.".repeat(40), "too deep"),
            (json!({}), &"a".repeat(2000), "too long"),
        ] {
            let error = set(root, key).unwrap_err();
            assert!(error.contains(says), "{key}: {error}");
        }
    }

    #[test]
    fn keys_are_pointers() {
        let key = ParameterKey::parse("spec.containers[0][\"a/b~c\"]").unwrap();
        assert_eq!(key.pointer(), "/spec/containers/0/a~1b~0c");
        assert_eq!(
            (key.root(), key.as_str()),
            ("spec", "spec.containers[0][\"a/b~c\"]")
        );
    }
}
