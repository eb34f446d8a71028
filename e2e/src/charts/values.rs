//! Values: merging as Helm does, YAML as `toYaml` prints it, and what comments say of them.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// `given` on top of `default`: maps are merged, everything else replaces, and null takes away.
pub fn merge(default: &Value, given: &Value) -> Value {
    let (Value::Object(default), Value::Object(given)) = (default, given) else {
        return given.clone();
    };
    let mut merged = default.clone();
    for (key, value) in given {
        if value.is_null() {
            merged.remove(key);
        } else {
            let under = default.get(key).unwrap_or(&Value::Null);
            merged.insert(key.clone(), merge(under, value));
        }
    }
    Value::Object(merged)
}

/// A value as YAML in block style, without a newline at the end. Strings are quoted, whatever they are.
pub fn to_yaml(value: &Value) -> String {
    match value {
        Value::Object(fields) if !fields.is_empty() => block(fields),
        Value::Array(items) if !items.is_empty() => {
            let item = |item| format!("- {}", to_yaml(item).replace('\n', "\n  "));
            items.iter().map(item).collect::<Vec<_>>().join("\n")
        }
        scalar => scalar.to_string(),
    }
}

fn block(fields: &Map<String, Value>) -> String {
    let plain = |key: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(plain)
    };
    let field = |(key, value): (&String, &Value)| {
        let key = if plain(key) {
            key.clone()
        } else {
            Value::from(key.as_str()).to_string()
        };
        let text = to_yaml(value);
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                format!("{key}:\n  {}", text.replace('\n', "\n  "))
            }
            Value::Array(items) if !items.is_empty() => format!("{key}:\n{text}"),
            _ => format!("{key}: {text}"),
        }
    };
    fields.iter().map(field).collect::<Vec<_>>().join("\n")
}

/// A value of `values.yaml` that has a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its path, such as `image.tag`.
    pub path: String,
    /// The comment above it, in one line.
    pub comment: String,
}

/// What the comments of `values.yaml` say, in the order of the file. A comment belongs to the key in the line below it.
pub fn described(text: &str) -> Vec<Described> {
    let mut out = Vec::new();
    let mut path: Vec<(usize, &str)> = Vec::new();
    let mut comment: Vec<&str> = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(words) = content.strip_prefix('#') {
            comment.push(words.trim());
            continue;
        }
        let said = std::mem::take(&mut comment).join(" ");
        let Some((key, rest)) = content.split_once(':') else {
            continue;
        };
        if key.contains(|c: char| !c.is_ascii_alphanumeric()) || !(rest.is_empty() || rest.starts_with(' ')) {
            continue;
        }
        path.retain(|(of, _)| *of < indent);
        path.push((indent, key));
        if !said.is_empty() {
            let keys: Vec<&str> = path.iter().map(|(_, key)| *key).collect();
            out.push(Described {
                path: keys.join("."),
                comment: said,
            });
        }
    }
    out
}

/// The paths of all values that are no maps, and of empty maps, with the values.
pub fn leaves(values: &Value) -> BTreeMap<String, &Value> {
    let mut out = BTreeMap::new();
    let mut open = vec![(String::new(), values)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                let below = |(key, value)| {
                    let dot = if path.is_empty() { "" } else { "." };
                    (format!("{path}{dot}{key}"), value)
                };
                open.extend(fields.iter().map(below));
            }
            _ => drop(out.insert(path, value)),
        }
    }
    out
}

/// Whether `path` is `above` or below it.
pub fn is_within(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_takes_a_value_away_and_lists_are_replaced() {
        let default = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "r": {"x": 1}, "s": "t"});
        let given = json!({"a": {"b": null, "d": {"e": 3}}, "l": [3], "r": null, "s": {"now": "a map"}});
        let expected = json!({"a": {"c": 2, "d": {"e": 3}}, "l": [3], "s": {"now": "a map"}});
        assert_eq!(merge(&default, &given), expected);
    }

    #[test]
    fn what_is_printed_as_yaml_reads_back() {
        let value = json!({
            "on": "off", "1": [], "a b": {}, "n": 2_592_000, "x": null,
            "list": [[1, [2]], {"a": {"b": ["c: d", "- e", "#"]}, "z": "line\nbreak"}],
        });
        assert_eq!(
            crate::charts::yaml(&to_yaml(&value)).unwrap(),
            value,
            "{}",
            to_yaml(&value)
        );
    }

    #[test]
    fn comments_belong_to_the_key_below() {
        let text = "# One,\n# two.\na: 1\nb:\n  # Of c.\n  c:\n    d: x\n  e: 2\n\n# Of f: all.\nf: [g]\n";
        let found = described(text);
        let found: Vec<_> = found
            .iter()
            .map(|d| (d.path.as_str(), d.comment.as_str()))
            .collect();
        assert_eq!(found, [("a", "One, two."), ("b.c", "Of c."), ("f", "Of f: all.")]);
    }

    #[test]
    fn a_path_is_within_itself_and_what_is_above_it() {
        for (path, above, expected) in [
            ("a.b", "a", true),
            ("a", "a", true),
            ("ab", "a", false),
            ("a", "a.b", false),
        ] {
            assert_eq!(is_within(path, above), expected, "{path} {above}");
        }
    }
}
