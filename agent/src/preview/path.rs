//! Field paths as people read them: `spec.template.spec.containers[name=main].image`.

use serde_json::Value;
use std::fmt;

/// One step of a field path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A field of an object.
    Field(String),
    /// An element of a list that merges by `key`.
    Element { key: String, value: Value },
    /// An element of a list that merges as a set.
    Item(Value),
}

/// A field path.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FieldPath(pub(crate) Vec<Step>);

impl FieldPath {
    /// The path of a step below this one.
    pub(crate) fn then(&self, step: Step) -> FieldPath {
        let mut steps = self.0.clone();
        steps.push(step);
        FieldPath(steps)
    }

    /// The names of the fields, if there are only such.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        let steps = self.0.iter();
        steps
            .map(|step| match step {
                Step::Field(name) => Some(name.as_str()),
                Step::Element { .. } | Step::Item(_) => None,
            })
            .collect()
    }

    /// The first field.
    pub(crate) fn head(&self) -> Option<&str> {
        match self.0.first() {
            Some(Step::Field(name)) => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// Text without quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_reads_as_people_write_it() {
        let field = |name: &str| Step::Field(name.to_owned());
        let main = Step::Element {
            key: "name".to_owned(),
            value: json!("main"),
        };
        let port = Step::Element {
            key: "containerPort".to_owned(),
            value: json!(80),
        };
        for (steps, expected) in [
            (
                vec![field("spec"), field("containers"), main, field("image")],
                "spec.containers[name=main].image",
            ),
            (vec![field("ports"), port], "ports[containerPort=80]"),
            (
                vec![field("metadata"), field("annotations"), field("a.b/c")],
                "metadata.annotations[\"a.b/c\"]",
            ),
            (
                vec![field("metadata"), field("finalizers"), Step::Item(json!("a.b/c"))],
                "metadata.finalizers[=a.b/c]",
            ),
        ] {
            assert_eq!(FieldPath(steps).to_string(), expected);
        }
    }
}
