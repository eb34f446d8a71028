//! A cursor over JSON that notes what it cannot understand and goes on.

use super::path::Path;
use roundhouse_expression::Compiled;
use serde_json::{Map, Value};
use std::cell::RefCell;

/// What was refused so far, and the expressions that were compiled: the same one is compiled once.
#[derive(Debug, Default)]
pub(super) struct Findings {
    refused: RefCell<Vec<(Path, String)>>,
    compiled: Compiled,
}

impl Findings {
    /// Notes that the field at `path` is refused.
    pub(super) fn add(&self, path: Path, reason: impl Into<String>) {
        self.refused.borrow_mut().push((path, reason.into()));
    }

    /// Everything noted, in the order of the document.
    pub(super) fn into_sorted(self) -> Vec<(Path, String)> {
        let mut findings = self.refused.into_inner();
        findings.sort_by(|a, b| a.0.cmp(&b.0));
        findings
    }
}

/// The fields that an object may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Fields that are understood: lists that shapes share, in the order in which they are named.
    pub(super) known: &'static [&'static [&'static str]],
    /// Fields that users of the format know and that are refused by name, with what to do instead.
    pub(super) refused: &'static [(&'static str, &'static str)],
}

impl Shape {
    /// The fields that are understood.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.known.iter().flat_map(|list| list.iter().copied())
    }
}

/// A value and where it is.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    /// The value.
    pub(super) value: &'a Value,
    /// Its path.
    pub(super) path: Path,
    findings: &'a Findings,
}

/// An object whose fields are read by name.
#[derive(Debug, Clone)]
pub(super) struct Object<'a> {
    map: &'a Map<String, Value>,
    path: Path,
    findings: &'a Findings,
}

impl<'a> Node<'a> {
    /// The root of a document.
    pub(super) fn root(value: &'a Value, name: &str, findings: &'a Findings) -> Self {
        let path = Path::default().key(name);
        Node {
            value,
            path,
            findings,
        }
    }

    /// Refuses this value.
    pub(super) fn refuse(&self, reason: impl Into<String>) {
        self.findings.add(self.path.clone(), reason);
    }

    /// Refuses what is elsewhere in the document.
    pub(super) fn refuse_at(&self, path: Path, reason: impl Into<String>) {
        self.findings.add(path, reason);
    }

    /// The expressions that need not be compiled again.
    pub(super) fn compiled(&self) -> &'a Compiled {
        &self.findings.compiled
    }

    fn expected<T>(&self, what: &str) -> Option<T> {
        self.refuse(format!("expected {what}, found {}", shown(self.value)));
        None
    }

    /// A child of this value.
    pub(super) fn child(&self, key: &str, value: &'a Value) -> Node<'a> {
        Node {
            value,
            path: self.path.key(key),
            findings: self.findings,
        }
    }

    /// The object; fields that its shape does not have are refused.
    pub(super) fn object(&self, shape: &Shape) -> Option<Object<'a>> {
        let Some(map) = self.value.as_object() else {
            return self.expected("a map");
        };
        for (key, value) in map {
            let field = self.child(key, value);
            if let Some((_, instead)) = shape.refused.iter().find(|(name, _)| name == key) {
                // `traits: []` asks for nothing.
                if !asks_for_nothing(value) {
                    field.refuse(*instead);
                }
            } else if !shape.names().any(|name| name == key) {
                field.refuse(unknown_field(key, shape.names()));
            }
        }
        Some(Object {
            map,
            path: self.path.clone(),
            findings: self.findings,
        })
    }

    /// The object, whose fields are not ours to know.
    pub(super) fn open_object(&self) -> Option<Object<'a>> {
        let Some(map) = self.value.as_object() else {
            return self.expected("a map");
        };
        Some(Object {
            map,
            path: self.path.clone(),
            findings: self.findings,
        })
    }

    /// The entries of a map with free keys.
    pub(super) fn entries(&self) -> Option<Vec<(&'a str, Node<'a>)>> {
        let Some(map) = self.value.as_object() else {
            return self.expected("a map");
        };
        Some(map.iter().map(|(k, v)| (k.as_str(), self.child(k, v))).collect())
    }

    /// The entries of a list.
    pub(super) fn list(&self) -> Option<Vec<Node<'a>>> {
        let Some(list) = self.value.as_array() else {
            return self.expected("a list");
        };
        let node = |(index, value)| Node {
            value,
            path: self.path.index(index),
            findings: self.findings,
        };
        Some(list.iter().enumerate().map(node).collect())
    }

    /// The entries of a list; none if it is no list, which is said elsewhere.
    pub(super) fn list_if_any(&self) -> Vec<Node<'a>> {
        match self.value.is_array() {
            true => self.list().unwrap_or_default(),
            false => Vec::new(),
        }
    }

    /// A string.
    pub(super) fn string(&self) -> Option<&'a str> {
        match self.value {
            Value::String(text) => Some(text),
            Value::Number(_) | Value::Bool(_) => {
                self.refuse(format!(
                    "expected a string, found {}: put it in quotes",
                    shown(self.value)
                ));
                None
            }
            _ => self.expected("a string"),
        }
    }

    /// A string that is not empty.
    pub(super) fn text(&self) -> Option<&'a str> {
        let text = self.string()?;
        if text.trim().is_empty() {
            self.refuse("is empty");
            return None;
        }
        Some(text)
    }

    /// A boolean.
    pub(super) fn boolean(&self) -> Option<bool> {
        match self.value.as_bool() {
            Some(value) => Some(value),
            None => self.expected("true or false"),
        }
    }

    /// An integer from `min` to `max`.
    pub(super) fn integer(&self, min: u32, max: u32) -> Option<u32> {
        let number = self.value.as_u64().and_then(|n| u32::try_from(n).ok());
        match number.filter(|n| (min..=max).contains(n)) {
            Some(number) => Some(number),
            None => self.expected(&format!("an integer from {min} to {max}")),
        }
    }

    /// One of several words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let text = self.string()?;
        let found = words
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, value)| *value);
        if found.is_none() {
            let known = words.iter().map(|(word, _)| *word);
            self.refuse(format!("{text:?} is not known here{}", choice(text, known)));
        }
        found
    }

    /// A list of strings; `None` if it is none, or one of its entries is.
    pub(super) fn strings(&self) -> Option<Vec<String>> {
        let list = self.list()?;
        // Every entry is looked at before the first bad one ends it.
        let texts: Vec<Option<&str>> = list.iter().map(Node::string).collect();
        texts.into_iter().map(|text| text.map(str::to_owned)).collect()
    }
}

impl<'a> Object<'a> {
    /// A field; `null` is as good as absent, as in Kubernetes.
    pub(super) fn optional(&self, name: &str) -> Option<Node<'a>> {
        self.present(name).filter(|node| !node.value.is_null())
    }

    /// A field, which may be `null`.
    pub(super) fn present(&self, name: &str) -> Option<Node<'a>> {
        let value = self.map.get(name)?;
        Some(Node {
            value,
            path: self.path.key(name),
            findings: self.findings,
        })
    }

    /// A field for which absence has a far-reaching meaning: `null`, often a slip of the pen, is refused.
    pub(super) fn not_null(&self, name: &str, absence: &str) -> Option<Node<'a>> {
        let node = self.present(name)?;
        if node.value.is_null() {
            node.refuse(format!("is null: leave it out {absence}, or set it"));
            return None;
        }
        Some(node)
    }

    /// A field that has to be there.
    pub(super) fn required(&self, name: &str, what_to_do: &str) -> Option<Node<'a>> {
        let node = self.optional(name);
        if node.is_none() {
            self.findings
                .add(self.path.key(name), format!("is required: {what_to_do}"));
        }
        node
    }

    /// Whether one of these fields is set.
    pub(super) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.optional(name).is_some())
    }

    /// The entries of an optional list; none if it is absent.
    pub(super) fn list(&self, name: &str) -> Vec<Node<'a>> {
        self.optional(name)
            .and_then(|node| node.list())
            .unwrap_or_default()
    }

    /// Refuses something below.
    pub(super) fn refuse_at(&self, below: &Path, reason: &str) {
        self.findings.add(self.path.join(below), reason);
    }

    /// Refuses the whole object.
    pub(super) fn refuse(&self, reason: impl Into<String>) {
        self.findings.add(self.path.clone(), reason);
    }
}

fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// What an unknown field is told.
pub(super) fn unknown_field<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> String {
    format!("unknown field{}", choice(key, known))
}

/// `: did you mean "x"? known here: a, b`, the suggestion only where one is close.
pub(crate) fn choice<'k>(given: &str, known: impl Iterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.collect();
    let lower = given.to_lowercase();
    let close = known
        .iter()
        .map(|word| (strsim::osa_distance(&lower, &word.to_lowercase()), *word))
        .filter(|(distance, word)| *distance <= 1 + word.len() / 5 && *distance < word.len())
        .min_by_key(|(distance, _)| *distance);
    let suggestion = close.map_or_else(String::new, |(_, word)| format!("did you mean {word:?}? "));
    if known.is_empty() {
        return ": nothing can be set here".to_owned();
    }
    format!(": {suggestion}known here: {}", known.join(", "))
}

/// A value as a message shows it: short ones as they are, long ones by kind.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.chars().count() <= 40 => format!("{text:?}"),
        Value::String(_) => "a long string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
    }
}
