//! Paths of fields, such as `spec.components[0].properties.labels["a.b/c"]`.

use serde_json::Value;
use std::fmt;

/// One step of a path. The order is that of a document: list entries by place, fields by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Index(usize),
    Key(String),
}

/// The path of a field; paths order as their fields do in a document, a parent before its children.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(Vec<Segment>);

impl Path {
    /// The path of a field of this one.
    pub(super) fn key(&self, key: &str) -> Path {
        self.with(Segment::Key(key.to_owned()))
    }

    /// The path of an entry of this list, from 0.
    pub(super) fn index(&self, index: usize) -> Path {
        self.with(Segment::Index(index))
    }

    /// The path of what is at `below` in this field.
    pub(super) fn join(&self, below: &Path) -> Path {
        Path(self.0.iter().chain(&below.0).cloned().collect())
    }

    /// The rest of a path that is below this one, or this one.
    pub(super) fn below(&self, path: &Path) -> Option<Path> {
        let rest = path.0.strip_prefix(self.0.as_slice())?;
        Some(Path(rest.to_vec()))
    }

    /// As much of this path as there is in `value`, and whether that is all of it.
    pub(super) fn within(&self, value: &Value) -> (Path, bool) {
        let mut at = Some(value);
        let there = self.0.iter().take_while(|segment| {
            at = match segment {
                Segment::Index(index) => at.and_then(|at| at.get(index)),
                Segment::Key(key) => at.and_then(|at| at.get(key)),
            };
            at.is_some()
        });
        let there: Vec<Segment> = there.cloned().collect();
        let whole = there.len() == self.0.len();
        (Path(there), whole)
    }

    fn with(&self, segment: Segment) -> Path {
        let mut segments = self.0.clone();
        segments.push(segment);
        Path(segments)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) if !is_word(key) => write!(f, "[{key:?}]")?,
                Segment::Key(key) if place == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}

fn is_word(key: &str) -> bool {
    !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_they_are_written_elsewhere() {
        let spec = Path::default().key("spec");
        let component = spec.key("components").index(10);
        assert_eq!(component.key("type").to_string(), "spec.components[10].type");
        assert_eq!(
            spec.key("labels").key("a.b/c").to_string(),
            r#"spec.labels["a.b/c"]"#
        );
        assert_eq!(spec.key("").to_string(), r#"spec[""]"#);
    }

    #[test]
    fn paths_order_as_in_the_document() {
        let list = Path::default().key("spec").key("components");
        assert!(list < list.index(2));
        assert!(list.index(2).key("type") < list.index(10));
        assert!(list.index(10) < Path::default().key("spec").key("policies"));
    }
}
