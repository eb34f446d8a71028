//! The JSONPath dialect of Kubernetes (`kubectl -o jsonpath`, printer columns), as far as it selects values: keys,
//! quoted keys, `\.` for a dot in a key, indices and slices, unions, `[*]`, and filters `[?(@.key=="value")]` with `==`,
//! `!=`, `<`, `<=`, `>`, `>=` or the mere presence of a key. Templates (`range`, several braces) and `..` are not part
//! of it.

use serde_json::Value;

/// A path finds at most this many values: a union may name one value again and again.
const MAX_FOUND: usize = 10_000;

/// Why a path cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no JSONPath: expected keys such as .status.phase, indices, [*] or [?(@.key==\"value\")]")]
pub struct JsonPathError(String);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    Index(i64),
    Slice {
        from: Option<i64>,
        to: Option<i64>,
        step: usize,
    },
    All,
    /// Each of them, in this order.
    Union(Vec<Step>),
    Filter {
        path: Vec<String>,
        test: Test,
    },
}

/// What a filter asks of a value.
#[derive(Debug, Clone, PartialEq)]
enum Test {
    Present,
    Compare(Comparison, Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Longer operators first: `<=` is not `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`, with or without `{}` and `$`.
    ///
    /// # Errors
    /// The text is no path of this dialect.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let bad = || JsonPathError(text.to_owned());
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

    /// Every value the path leads to, in the order of the document; 10,000 at most.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut now = vec![root];
        for step in &self.0 {
            now = now
                .into_iter()
                .flat_map(|v| step.apply(v))
                .take(MAX_FOUND)
                .collect();
        }
        now
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Key(key), _) => value.get(key).into_iter().collect(),
            (Self::Index(i), Value::Array(list)) => list.get(position(*i, list.len())).into_iter().collect(),
            (Self::Slice { from, to, step }, Value::Array(list)) => {
                let from = from.map_or(0, |i| position(i, list.len()));
                let to = to.map_or(list.len(), |i| position(i, list.len())).min(list.len());
                let part = list.get(from..to).unwrap_or_default();
                part.iter().step_by(*step).collect()
            }
            (Self::All, Value::Array(list)) => list.iter().collect(),
            (Self::All, Value::Object(map)) => map.values().collect(),
            (Self::Union(steps), _) => steps.iter().flat_map(|step| step.apply(value)).collect(),
            (Self::Filter { path, test }, Value::Array(list)) => {
                list.iter().filter(|v| test.holds(at(v, path))).collect()
            }
            _ => vec![],
        }
    }
}

impl Test {
    fn holds(&self, found: Option<&Value>) -> bool {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let (comparison, wanted) = match self {
            Test::Present => return found.is_some(),
            Test::Compare(comparison, wanted) => (*comparison, wanted),
        };
        let order = match (found, wanted) {
            (Some(Value::Number(a)), Value::Number(b)) => {
                a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
            }
            (Some(Value::String(a)), Value::String(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match comparison {
            Equal => found == Some(wanted) || order.is_some_and(std::cmp::Ordering::is_eq),
            NotEqual => found != Some(wanted) && !order.is_some_and(std::cmp::Ordering::is_eq),
            Less => order.is_some_and(std::cmp::Ordering::is_lt),
            LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

/// Where index `i` points in a list of this length; negative ones count from the end. Past the end stays past the end.
fn position(i: i64, length: usize) -> usize {
    if i >= 0 {
        return usize::try_from(i).unwrap_or(usize::MAX);
    }
    let back = usize::try_from(i.unsigned_abs()).unwrap_or(usize::MAX);
    length.checked_sub(back).unwrap_or(usize::MAX)
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// A key up to the next unescaped dot or bracket.
fn key(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' => out.push(chars.next()?.1),
            '{' | '}' => return None,
            '.' | '[' => return (!out.is_empty()).then(|| (out, text.get(i..).unwrap_or_default())),
            c => out.push(c),
        }
    }
    (!out.is_empty()).then_some((out, ""))
}

/// What stands between brackets; `text` starts after the opening one.
fn bracket(text: &str) -> Option<(Step, &str)> {
    let end = closing(text)?;
    let (inner, tail) = (text.get(..end)?.trim(), text.get(end + 1..)?);
    if let Some(filter) = inner.strip_prefix("?(") {
        return Some((filter_step(filter.strip_suffix(')')?)?, tail));
    }
    let mut steps = split_outside_quotes(inner)
        .into_iter()
        .map(|part| one(part.trim()))
        .collect::<Option<Vec<Step>>>()?;
    let step = if steps.len() == 1 {
        steps.remove(0)
    } else {
        Step::Union(steps)
    };
    Some((step, tail))
}

/// One entry between brackets: a quoted key, `*`, an index or a slice.
fn one(text: &str) -> Option<Step> {
    if let Some(key) = quoted(text) {
        return Some(Step::Key(key.to_owned()));
    }
    if text == "*" {
        return Some(Step::All);
    }
    if !text.contains(':') {
        return text.parse().ok().map(Step::Index);
    }
    let mut parts = text.split(':').map(str::trim);
    let mut bound = || match parts.next() {
        None | Some("") => Some(None),
        Some(text) => text.parse::<i64>().ok().map(Some),
    };
    let (from, to, step) = (bound()?, bound()?, bound()?);
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    (text.matches(':').count() <= 2).then_some(Step::Slice { from, to, step })
}

/// The text between quotes of one kind.
fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

/// Where the bracket closes; brackets in quotes do not count.
fn closing(text: &str) -> Option<usize> {
    outside_quotes(text).find(|(_, c)| *c == ']').map(|(at, _)| at)
}

fn split_outside_quotes(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in outside_quotes(text).filter(|(_, c)| *c == ',') {
        parts.extend(text.get(start..at));
        start = at + 1;
    }
    parts.extend(text.get(start..));
    parts
}

fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut open = None;
    text.char_indices().filter(move |(_, c)| match open {
        Some(quote) => {
            if *c == quote {
                open = None;
            }
            false
        }
        None => {
            if matches!(c, '\'' | '"') {
                open = Some(*c);
            }
            open.is_none()
        }
    })
}

fn filter_step(text: &str) -> Option<Step> {
    let text = text.trim();
    let operator = outside_quotes(text).find_map(|(at, _)| {
        let rest = text.get(at..)?;
        let (sign, comparison) = COMPARISONS.iter().find(|(sign, _)| rest.starts_with(sign))?;
        Some((at, sign.len(), *comparison))
    });
    let (left, test) = match operator {
        None => (text, Test::Present),
        Some((at, length, comparison)) => {
            let right = text.get(at + length..)?.trim();
            let value = match quoted(right) {
                Some(text) => Value::String(text.to_owned()),
                None => serde_json::from_str(right).ok()?,
            };
            (text.get(..at)?.trim(), Test::Compare(comparison, value))
        }
    };
    let mut rest = left.strip_prefix('@')?;
    let mut path = Vec::new();
    while !rest.is_empty() {
        let (step, tail) = key(rest.strip_prefix('.')?)?;
        path.push(step);
        rest = tail;
    }
    Some(Step::Filter { path, test })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths() {
        let value = json!({"a": {"b": [1, 2, 3]}, "x.y": "dot", "l]": 5,
            "c": [{"type": "Ready", "status": "True", "n": 1}, {"type": "Other", "n": 2.5}]});
        let table = [
            (".a.b[0]", json!([1])),
            ("{.a.b[-1]}", json!([3])),
            (".a.b[*]", json!([1, 2, 3])),
            (".a.b[0:2]", json!([1, 2])),
            (".a.b[1:]", json!([2, 3])),
            (".a.b[-2:]", json!([2, 3])),
            (".a.b[::2]", json!([1, 3])),
            (".a.b[5:9]", json!([])),
            (".a.b[2,0]", json!([3, 1])),
            ("['x.y','none']", json!(["dot"])),
            (".c[?(@.type==\"Ready\")].status", json!(["True"])),
            (".c[?(@.type=='Other')].type", json!(["Other"])),
            (".c[?(@.type!='Other')].type", json!(["Ready"])),
            (".c[?(@.n>1)].type", json!(["Other"])),
            (".c[?(@.n>=1)].n", json!([1, 2.5])),
            (".c[?(@.n < 2)].type", json!(["Ready"])),
            (".c[?(@.n<=1.0)].type", json!(["Ready"])),
            (".c[?(@.n==1.0)].type", json!(["Ready"])),
            (".c[?(@.status)].type", json!(["Ready"])),
            (".c[?(@.type<='P')].type", json!(["Other"])),
            (".x\\.y", json!(["dot"])),
            ("['x.y']", json!(["dot"])),
            ("['l]']", json!([5])),
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
        for text in [
            "",
            "a",
            ".",
            ".a[",
            ".a[x]",
            ".a[?(x)]",
            ".a[?(@.x==)]",
            ".a[0:1:0]",
            ".a[0:1:2:3]",
            ".a[,]",
            ".a..b",
            "{.a}{.b}",
        ] {
            assert!(JsonPath::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,30}|[.a\\[\\]?@()='\"0-9*$:,<>!\\\\-]{0,20}") {
            if let Ok(path) = JsonPath::parse(&text) {
                let _ = path.find(&json!({"a": [{"a": 1}]}));
            }
        }
    }
}
