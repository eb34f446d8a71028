//! The keywords of JSON Schema (draft 7) that the charts' schemas use, and no others.

use regex::Regex;
use serde_json::Value;

/// Keywords that say nothing about a value.
const WORDS: [&str; 3] = ["$schema", "title", "description"];

/// What is wrong with a value, each with its path.
pub fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    check(schema, value, "", &mut problems);
    problems
}

/// Every schema in a schema, itself included, with the path of what it is about; items of lists are `[]`, values of maps `*`.
pub fn all(schema: &Value) -> Vec<(String, &Value)> {
    let mut out = Vec::new();
    let mut open = vec![(String::new(), schema)];
    while let Some((path, schema)) = open.pop() {
        for (key, of) in schema["properties"].as_object().into_iter().flatten() {
            open.push((join(&path, key), of));
        }
        if schema["items"].is_object() {
            open.push((format!("{path}[]"), &schema["items"]));
        }
        if schema["additionalProperties"].is_object() {
            open.push((join(&path, "*"), &schema["additionalProperties"]));
        }
        out.push((path, schema));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn check(schema: &Value, value: &Value, path: &str, out: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        out.push(format!("{path}: its schema is no object"));
        return;
    };
    for (keyword, wanted) in keywords {
        let holds = match keyword.as_str() {
            keyword if WORDS.contains(&keyword) => true,
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|of| is(of, value)),
                of => is(of, value),
            },
            "enum" => wanted.as_array().is_some_and(|of| of.contains(value)),
            "pattern" => value
                .as_str()
                .is_none_or(|text| matches(wanted.as_str().unwrap_or_default(), text)),
            "minimum" => value.as_f64() >= wanted.as_f64() || !value.is_number(),
            "maximum" => value.as_f64() <= wanted.as_f64() || !value.is_number(),
            "minLength" => value
                .as_str()
                .is_none_or(|text| Some(text.chars().count() as u64) >= wanted.as_u64()),
            "maxItems" => value
                .as_array()
                .is_none_or(|items| Some(items.len() as u64) <= wanted.as_u64()),
            "required" => {
                let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing: Vec<&str> = names
                    .filter(|name| value.is_object() && value.get(name).is_none())
                    .collect();
                missing.is_empty()
            }
            "properties" => {
                for (key, of) in value.as_object().into_iter().flatten() {
                    if let Some(schema) = wanted.get(key) {
                        check(schema, of, &join(path, key), out);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known = |key: &str| schema["properties"].get(key).is_some();
                let others = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| !known(key));
                for (key, of) in others {
                    match wanted {
                        Value::Bool(true) => {}
                        Value::Bool(false) => {
                            out.push(format!("{}: there is no such value", join(path, key)))
                        }
                        schema => check(schema, of, &join(path, key), out),
                    }
                }
                true
            }
            "items" => {
                for (index, of) in value.as_array().into_iter().flatten().enumerate() {
                    check(wanted, of, &format!("{path}[{index}]"), out);
                }
                true
            }
            other => {
                out.push(format!("{path}: the keyword {other:?} is not known here"));
                true
            }
        };
        if !holds {
            out.push(format!("{path}: {value} is not of {keyword} {wanted}"));
        }
    }
}

fn is(type_: &Value, value: &Value) -> bool {
    match type_.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        _ => false,
    }
}

/// A pattern that is none matches nothing.
fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_that_is_not_of_its_schema_is_named_with_its_path() {
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["n"],
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 5},
                "s": {"type": ["string", "number"], "pattern": "^a+$", "minLength": 2},
                "e": {"enum": ["on", true]},
                "l": {"type": "array", "maxItems": 2, "items": {"type": "boolean"}},
                "m": {"type": "object", "additionalProperties": {"type": "string"}},
                "r": {"type": "object", "additionalProperties": true},
            },
        });
        for (value, expected) in [
            (
                json!({"n": 1, "s": "aa", "e": true, "l": [true], "m": {"x": "y"}, "r": {"z": []}}),
                "",
            ),
            (json!({"n": 5, "s": 1.5}), ""),
            (json!({}), ": {} is not of required [\"n\"]"),
            (json!({"n": 0}), "n: 0 is not of minimum 1"),
            (json!({"n": 6}), "n: 6 is not of maximum 5"),
            (json!({"n": 1.5}), "n: 1.5 is not of type \"integer\""),
            (json!({"n": "1"}), "n: \"1\" is not of type \"integer\""),
            (json!({"n": 1, "x": 1}), "x: there is no such value"),
            (json!({"n": 1, "s": "ab"}), "s: \"ab\" is not of pattern \"^a+$\""),
            (json!({"n": 1, "s": "a"}), "s: \"a\" is not of minLength 2"),
            (
                json!({"n": 1, "e": "off"}),
                "e: \"off\" is not of enum [\"on\",true]",
            ),
            (
                json!({"n": 1, "l": [true, 1]}),
                "l[1]: 1 is not of type \"boolean\"",
            ),
            (
                json!({"n": 1, "l": [true, true, true]}),
                "l: [true,true,true] is not of maxItems 2",
            ),
            (json!({"n": 1, "m": {"x": 1}}), "m.x: 1 is not of type \"string\""),
            (json!([]), ": [] is not of type \"object\""),
        ] {
            assert_eq!(problems(&schema, &value).join("; "), expected, "{value}");
        }
        let unknown = json!({"multipleOf": 2});
        assert_eq!(
            problems(&unknown, &json!(4)),
            [": the keyword \"multipleOf\" is not known here"]
        );
    }

    #[test]
    fn schemas_in_a_schema_have_paths() {
        let schema = json!({"properties": {"a": {"items": {"properties": {"b": {}}}}, "m": {"additionalProperties": {}}}});
        let paths: Vec<String> = all(&schema).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["", "a", "a[]", "a[].b", "m", "m.*"]);
    }
}
