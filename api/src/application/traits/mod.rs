//! What traits do to the workload of their component: fields that they set, and how these are merged into a manifest.
//!
//! A trait is understood once, by [`validate()`](super::validate()), as the fields that it sets. Conflicts are two
//! traits that set one field differently, and the merge is one strategic merge patch of all of them together: the order
//! in which traits are written has no meaning, and several of them change the pods once (seed: patch-traits).

mod merge;
mod workload;

pub use merge::merge_traits;
pub use workload::{pod_template, workload_of};

use super::{ExposeType, WebservicePort};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// A trait whose properties were understood.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidTrait {
    /// The type as an Application names it.
    pub type_: &'static str,
    /// The fields of the workload that it sets.
    pub settings: Vec<Setting>,
    /// A Service that it adds beside the workload, named like the component.
    pub service: Option<TraitService>,
}

/// One field of a workload that a trait sets.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// The field, from the root of the workload.
    pub path: FieldPath,
    /// Its value; `None` removes it.
    pub value: Option<Value>,
}

/// The path of a field, such as `spec.template.spec.containers[web].image`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<Segment>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Segment {
    /// A field of a map.
    Field(String),
    /// The element of a list that has this `name`.
    Element(String),
}

impl FieldPath {
    /// The path of nested fields.
    pub fn of(fields: &[&str]) -> Self {
        FieldPath::default().fields(fields)
    }

    /// Fields below this one.
    #[must_use]
    pub fn fields(mut self, fields: &[&str]) -> Self {
        let fields = fields.iter().map(|field| Segment::Field((*field).to_owned()));
        self.0.extend(fields);
        self
    }

    /// The element of this list that has the given `name`.
    #[must_use]
    pub fn element(mut self, name: &str) -> Self {
        self.0.push(Segment::Element(name.to_owned()));
        self
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Element(name) => write!(f, "[{name}]")?,
                Segment::Field(field) if field.contains(['.', '/']) => write!(f, "[{field:?}]")?,
                Segment::Field(field) if place == 0 => f.write_str(field)?,
                Segment::Field(field) => write!(f, ".{field}")?,
            }
        }
        Ok(())
    }
}

/// The Service that the trait `expose` adds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TraitService {
    /// Labels of the pods behind it.
    pub selector: BTreeMap<String, String>,
    /// Its ports; each leads to the port of the same number.
    pub ports: Vec<WebservicePort>,
    /// Its type.
    pub expose_type: ExposeType,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::FieldPath;

    #[test]
    fn paths_read_as_people_write_them() {
        let template = FieldPath::of(&["spec", "template"]);
        let container = template.clone().fields(&["spec", "containers"]).element("web");
        assert_eq!(
            container.fields(&["env"]).element("A.b").to_string(),
            "spec.template.spec.containers[web].env[A.b]"
        );
        assert_eq!(
            template.fields(&["metadata", "labels", "a.b/c"]).to_string(),
            r#"spec.template.metadata.labels["a.b/c"]"#
        );
    }
}
