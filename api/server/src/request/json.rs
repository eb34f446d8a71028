//! JSON, and what else reads as it, in one pass with the fields that come twice: the last one counts, the sender may be told.

use std::{cell::RefCell, fmt};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::schema::Path;

/// At most so many duplicates are noted.
const MAX_DUPLICATES: usize = 100;

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) value: Value,
    /// Paths of fields that come twice, such as `spec.containers[0].image`.
    pub(crate) duplicates: Vec<String>,
}

/// Reads JSON.
///
/// # Errors
/// If it is malformed.
pub(crate) fn read(bytes: &[u8]) -> Result<Noted, serde_json::Error> {
    serde_json::from_slice(bytes)
}

impl<'de> Deserialize<'de> for Noted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let duplicates = RefCell::new(vec![]);
        let root = Node {
            path: Path::Root(""),
            duplicates: &duplicates,
        };
        let value = root.deserialize(deserializer)?;
        Ok(Self {
            value,
            duplicates: duplicates.into_inner(),
        })
    }
}

#[derive(Clone, Copy)]
struct Node<'a> {
    path: Path<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl Node<'_> {
    fn note(&self) {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() < MAX_DUPLICATES {
            let path = self.path.to_string();
            if !duplicates.contains(&path) {
                duplicates.push(path);
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        loop {
            let path = Path::Index(&self.path, list.len());
            let element = Node {
                path,
                duplicates: self.duplicates,
            };
            match elements.next_element_seed(element)? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = Path::Field(&self.path, &key);
            let field = Node {
                path,
                duplicates: self.duplicates,
            };
            if map.contains_key(&key) {
                field.note();
            }
            let value = fields.next_value_seed(field)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_twice_is_noted_once_and_the_last_counts() {
        let text = r#"{"spec": {"replicas": 1, "list": [{}, {"a": 1, "a": 2, "a": 3}], "replicas": 2}, "spec.x": 1}"#;
        let noted = read(text.as_bytes()).unwrap();
        assert_eq!(noted.duplicates, ["spec.list[1].a", "spec.replicas"]);
        let expected = json!({"spec": {"replicas": 2, "list": [{}, {"a": 3}]}, "spec.x": 1});
        assert_eq!(noted.value, expected);
        let many: Vec<String> = (0..300).map(|i| format!("\"{i}\":1,\"{i}\":1")).collect();
        let noted = read(format!("{{{}}}", many.join(",")).as_bytes()).unwrap();
        assert_eq!(noted.duplicates.len(), MAX_DUPLICATES);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "{} {}", "[1,]", "nul", "\"\\ud800\"", &"[".repeat(200)] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_reads_what_serde_json_reads(text in r#"[\[\]{}":,0-9.eE+\-a-c\\ u]{0,40}|\{"a":[0-9eE.\-]{1,25}\}"#) {
            let plain: Option<Value> = serde_json::from_str(&text).ok();
            prop_assert_eq!(read(text.as_bytes()).ok().map(|noted| noted.value), plain);
        }
    }
}
