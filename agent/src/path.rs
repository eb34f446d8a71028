//! Path: one field of one object, as people read it: `spec.template.spec.containers[name=main].image`. What users write
//! to select fields is another thing: `roundhouse_patch::field`.

use serde_json::Value;
use std::cmp::Ordering;
use std::fmt;

/// One step from an object to a field of it. Values are as they are written in JSON.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// A field of an object.
    Field(Box<str>),
    /// The element of a list that merges by a key.
    Element { key: Box<str>, value: Box<str> },
    /// An element of a list that merges as a set.
    Item(Box<str>),
}

impl Step {
    pub(crate) fn element(key: &str, value: &Value) -> Step {
        Step::Element {
            key: key.into(),
            value: value.to_string().into(),
        }
    }

    pub(crate) fn item(value: &Value) -> Step {
        Step::Item(value.to_string().into())
    }
}

/// Where in an object a field is. The empty path is the object itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FieldPath(pub(crate) Vec<Step>);

impl FieldPath {
    /// The path of a step below this one.
    pub(crate) fn then(&self, step: Step) -> FieldPath {
        let mut steps = self.0.clone();
        steps.push(step);
        FieldPath(steps)
    }

    /// The path of a field below this one.
    pub(crate) fn field(&self, name: &str) -> FieldPath {
        self.then(Step::Field(name.into()))
    }

    /// Its first `steps` steps.
    pub(crate) fn cut(&self, steps: usize) -> FieldPath {
        FieldPath(self.0.iter().take(steps).cloned().collect())
    }

    /// The names of the fields, if there are only such.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        self.0.iter().map(name).collect()
    }

    /// The first field.
    pub(crate) fn head(&self) -> Option<&str> {
        self.0.first().and_then(name)
    }

    /// Whether it leads into one of these fields of the object.
    pub(crate) fn is_below(&self, fields: &[&str]) -> bool {
        let mut names = self.0.iter().map(name);
        fields.iter().all(|field| names.next() == Some(Some(*field)))
    }

    /// The JSON pointer (RFC 6901) to it in an object; `None` if it leads nowhere there.
    pub(crate) fn pointer(&self, object: &Value) -> Option<String> {
        let (mut at, mut pointer) = (object, String::new());
        for step in &self.0 {
            let is_it = |element: &Value| match step {
                Step::Field(_) => false,
                Step::Element { key, .. } => element
                    .get(&**key)
                    .is_some_and(|id| Step::element(key, id) == *step),
                Step::Item(_) => Step::item(element) == *step,
            };
            let part = if let Step::Field(name) = step {
                at = at.get(&**name)?;
                name.replace('~', "~0").replace('/', "~1")
            } else {
                let place = at.as_array()?.iter().position(is_it)?;
                at = at.get(place)?;
                place.to_string()
            };
            pointer.push('/');
            pointer.push_str(&part);
        }
        Some(pointer)
    }
}

/// Orders JSON pointers by where they lead to in one object: what is above before what is below it, and the elements of a
/// list by their places.
pub(crate) fn by_place(one: &str, other: &str) -> Ordering {
    fn tokens(pointer: &str) -> impl Iterator<Item = (Option<usize>, &str)> {
        pointer.split('/').map(|token| (token.parse().ok(), token))
    }
    tokens(one).cmp(tokens(other))
}

fn name(step: &Step) -> Option<&str> {
    match step {
        Step::Field(name) => Some(name),
        Step::Element { .. } | Step::Item(_) => None,
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the object itself");
        }
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if name.contains(['.', '/', '[', ']', ' ']) || name.is_empty() => {
                    write!(f, "[{name:?}]")?;
                }
                Step::Field(name) if at == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Element { key, value } => write!(f, "[{key}={}]", plain(value))?,
                Step::Item(value) => write!(f, "[={}]", plain(value))?,
            }
        }
        Ok(())
    }
}

/// Text without its quotes, anything else as JSON.
fn plain(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointers_are_in_the_order_of_their_places() {
        let ordered = [
            "",
            "/a",
            "/a/2",
            "/a/2/x",
            "/a/9",
            "/a/10",
            "/a/10/b/3",
            "/a/10/b/20",
            "/b",
            "/b/x~1y",
        ];
        let mut sorted = ordered;
        sorted.reverse();
        sorted.sort_by(|one, other| by_place(one, other));
        assert_eq!(sorted, ordered);
    }

    #[test]
    fn a_path_reads_as_people_write_it_and_leads_to_its_field() {
        let object = json!({
            "spec": {"containers": [{"name": "side"}, {"name": "main", "image": "i"}], "ports": [{"containerPort": 80}]},
            "metadata": {"annotations": {"a.b/c": "1"}, "finalizers": ["x", "a.b/c"]},
        });
        let field = |name: &str| Step::Field(name.into());
        for (steps, text, pointer) in [
            (
                vec![
                    field("spec"),
                    field("containers"),
                    Step::element("name", &json!("main")),
                    field("image"),
                ],
                "spec.containers[name=main].image",
                Some("/spec/containers/1/image"),
            ),
            (
                vec![
                    field("spec"),
                    field("ports"),
                    Step::element("containerPort", &json!(80)),
                ],
                "spec.ports[containerPort=80]",
                Some("/spec/ports/0"),
            ),
            (
                vec![field("metadata"), field("annotations"), field("a.b/c")],
                "metadata.annotations[\"a.b/c\"]",
                Some("/metadata/annotations/a.b~1c"),
            ),
            (
                vec![
                    field("metadata"),
                    field("finalizers"),
                    Step::item(&json!("a.b/c")),
                ],
                "metadata.finalizers[=a.b/c]",
                Some("/metadata/finalizers/1"),
            ),
            (vec![field("spec"), field("replicas")], "spec.replicas", None),
            (vec![], "the object itself", Some("")),
        ] {
            let path = FieldPath(steps);
            assert_eq!(path.to_string(), text);
            assert_eq!(path.pointer(&object).as_deref(), pointer, "{text}");
        }
    }
}
