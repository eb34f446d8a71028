//! How lists and maps of a kind merge: built-in ones by the generated table, custom ones by their definition.

use roundhouse_patch::managed::{BuiltIn, Child, Relation, Topology, built_in};
use serde_json::Value;

use crate::{
    kinds::Resource,
    schema::{ListType, Schema},
};

/// The topology of a value of any kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ObjectTopology<'a> {
    BuiltIn(BuiltIn),
    /// A whole custom resource.
    Root(&'a Schema),
    Custom(&'a Schema),
    /// Nothing is known: objects are maps, lists are atomic.
    Unknown,
}

/// The topology of objects of a kind.
pub(crate) fn topology(resource: &Resource) -> ObjectTopology<'_> {
    match &resource.custom {
        Some(custom) => ObjectTopology::Root(&custom.schema),
        None => built_in(&resource.api_version(), &resource.kind)
            .map_or(ObjectTopology::Unknown, ObjectTopology::BuiltIn),
    }
}

impl Topology for ObjectTopology<'_> {
    fn relation(self, value: &Value) -> Relation {
        match (self, value) {
            (Self::BuiltIn(topology), _) => topology.relation(value),
            (Self::Custom(schema), Value::Object(_)) if schema.atomic => Relation::Atomic,
            (_, Value::Object(_)) => Relation::Granular,
            (Self::Custom(schema), Value::Array(_)) => match schema.list {
                ListType::Atomic => Relation::Atomic,
                ListType::Set => Relation::Set,
                ListType::Map(_) => Relation::Keyed,
            },
            _ => Relation::Atomic,
        }
    }

    fn child(self, name: &str) -> Child<Self> {
        let child = |node, named| Child {
            node,
            named,
            inline: false,
        };
        match self {
            Self::BuiltIn(topology) => {
                let Child { node, named, inline } = topology.child(name);
                Child {
                    node: Self::BuiltIn(node),
                    named,
                    inline,
                }
            }
            Self::Root(_) if name == "metadata" => child(Self::BuiltIn(BuiltIn::metadata()), true),
            Self::Root(_) if matches!(name, "apiVersion" | "kind") => child(Self::Unknown, true),
            Self::Root(schema) | Self::Custom(schema) => {
                match (schema.properties.get(name), schema.additional.as_deref()) {
                    (Some(schema), _) => child(Self::Custom(schema), true),
                    (None, Some(schema)) => child(Self::Custom(schema), false),
                    (None, None) => child(Self::Unknown, false),
                }
            }
            Self::Unknown => child(Self::Unknown, false),
        }
    }

    fn element(self) -> Self {
        match self {
            Self::BuiltIn(topology) => Self::BuiltIn(topology.element()),
            Self::Root(schema) | Self::Custom(schema) => {
                schema.items.as_deref().map_or(Self::Unknown, Self::Custom)
            }
            Self::Unknown => Self::Unknown,
        }
    }

    fn key_fields(self, see: &mut dyn FnMut(&str, Option<&Value>)) {
        match self {
            Self::BuiltIn(topology) => topology.key_fields(see),
            Self::Root(schema) | Self::Custom(schema) => {
                let ListType::Map(keys) = &schema.list else { return };
                for key in keys {
                    let items = schema.items.as_deref();
                    let property = items.and_then(|items| items.properties.get(key.as_str()));
                    see(key, property.and_then(|property| property.default.as_ref()));
                }
            }
            Self::Unknown => {}
        }
    }
}
