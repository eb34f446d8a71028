//! The JSONPath subset of printer columns: keys, quoted keys, indices, `[*]` and `[?(@.key=="value")]`.

use serde_json::Value;

/// Why a path cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no JSONPath: expected keys such as .status.phase, indices, [*] or [?(@.key==\"value\")]")]
pub(crate) struct PathError(String);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(i64),
    All,
    Filter {
        path: Vec<String>,
        value: Value,
        equal: bool,
    },
}

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<Step>);

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub(crate) fn parse(text: &str) -> Result<Self, PathError> {
        let bad = || PathError(text.to_owned());
        let inner = text.trim();
        let inner = inner
            .strip_prefix('{')
            .and_then(|t| t.strip_suffix('}'))
            .unwrap_or(inner);
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut steps = vec![];
        if rest.is_empty() {
            return Err(bad());
        }
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix('[') {
                let (step, tail) = bracket(tail).ok_or_else(bad)?;
                steps.push(step);
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix('.') {
                let (key, tail) = key(tail).ok_or_else(bad)?;
                steps.push(if key == "*" { Step::All } else { Step::Key(key) });
                rest = tail;
            } else {
                return Err(bad());
            }
        }
        Ok(Self(steps))
    }

    /// Every value the path leads to.
    pub(crate) fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut now = vec![root];
        for step in &self.0 {
            now = now.into_iter().flat_map(|v| step.apply(v)).collect();
        }
        now
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Key(key), _) => value.get(key).into_iter().collect(),
            (Self::Index(i), Value::Array(list)) => {
                let at = if *i < 0 {
                    i64::try_from(list.len()).unwrap_or(i64::MAX).saturating_add(*i)
                } else {
                    *i
                };
                usize::try_from(at)
                    .ok()
                    .and_then(|at| list.get(at))
                    .into_iter()
                    .collect()
            }
            (Self::All, Value::Array(list)) => list.iter().collect(),
            (Self::All, Value::Object(map)) => map.values().collect(),
            (
                Self::Filter {
                    path,
                    value: want,
                    equal,
                },
                Value::Array(list),
            ) => {
                let keys: Vec<&str> = path.iter().map(String::as_str).collect();
                list.iter()
                    .filter(|v| (crate::object::at(v, &keys) == Some(want)) == *equal)
                    .collect()
            }
            _ => vec![],
        }
    }
}

/// A key up to the next unescaped dot or bracket.
fn key(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' => out.push(chars.next()?.1),
            '.' | '[' => return (!out.is_empty()).then(|| (out, text.get(i..).unwrap_or_default())),
            c => out.push(c),
        }
    }
    (!out.is_empty()).then_some((out, ""))
}

/// What stands between brackets; `text` starts after the opening one.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(filter) = text.strip_prefix("?(") {
        let end = filter.find(")]")?;
        let step = filter_step(filter.get(..end)?)?;
        return Some((step, filter.get(end + 2..)?));
    }
    for quote in ['\'', '"'] {
        if let Some(quoted) = text.strip_prefix(quote) {
            let end = quoted.find(&format!("{quote}]"))?;
            return Some((Step::Key(quoted.get(..end)?.to_owned()), quoted.get(end + 2..)?));
        }
    }
    let end = text.find(']')?;
    let inner = text.get(..end)?.trim();
    let step = if inner == "*" {
        Step::All
    } else {
        Step::Index(inner.parse().ok()?)
    };
    Some((step, text.get(end + 1..)?))
}

fn filter_step(text: &str) -> Option<Step> {
    let (left, right, equal) = match text.split_once("==") {
        Some((l, r)) => (l, r, true),
        None => text.split_once("!=").map(|(l, r)| (l, r, false))?,
    };
    let left = left.trim().strip_prefix("@.")?;
    let right = right.trim();
    let quoted = |q: char| {
        right
            .strip_prefix(q)
            .and_then(|t| t.strip_suffix(q))
            .map(|t| Value::String(t.to_owned()))
    };
    let value = quoted('"')
        .or_else(|| quoted('\''))
        .or_else(|| serde_json::from_str(right).ok())?;
    Some(Step::Filter {
        path: left.split('.').map(str::to_owned).collect(),
        value,
        equal,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths() {
        let value = json!({"a": {"b": [1, 2, 3]}, "x.y": "dot", "c": [{"type": "Ready", "status": "True"}, {"type": "Other"}]});
        let table = [
            (".a.b[0]", json!([1])),
            ("{.a.b[-1]}", json!([3])),
            (".a.b[*]", json!([1, 2, 3])),
            (".c[?(@.type==\"Ready\")].status", json!(["True"])),
            (".c[?(@.type=='Other')].type", json!(["Other"])),
            (".c[?(@.type!='Other')].type", json!(["Ready"])),
            (".x\\.y", json!(["dot"])),
            ("['x.y']", json!(["dot"])),
            (".none.at.all", json!([])),
        ];
        for (text, want) in table {
            let found: Vec<Value> = JsonPath::parse(text)
                .unwrap()
                .find(&value)
                .into_iter()
                .cloned()
                .collect();
            assert_eq!(Value::from(found), want, "{text}");
        }
        for text in ["", "a", ".", ".a[", ".a[x]", ".a[?(x)]", ".a..b"] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,30}|[.a\\[\\]?@()='\"0-9*$\\\\-]{0,20}") {
            if let Ok(path) = JsonPath::parse(&text) {
                let _ = path.find(&json!({"a": [{"a": 1}]}));
            }
        }
    }
}
