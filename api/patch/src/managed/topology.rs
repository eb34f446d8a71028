//! How objects and lists of a kind merge.

use serde_json::Value;

use super::{ApplyError, Step, table};

/// How a value takes part in a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// A scalar, or a list or object that is one thing (`x-kubernetes-list-type: atomic`, `x-kubernetes-map-type:
    /// atomic`).
    Atomic,
    /// An object whose fields are things of their own.
    Granular,
    /// A list whose elements are told apart by key fields (`x-kubernetes-list-type: map`).
    Keyed,
    /// A list of scalars, each there once (`x-kubernetes-list-type: set`).
    Set,
}

/// A field of an object, as its type knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child<T> {
    /// What is in it.
    pub node: T,
    /// Whether the type names the field; an entry of a map and a field nobody declared are not named.
    pub named: bool,
    /// Whether the field is there, empty, in every object: a Go struct that is no pointer. Who fills it does not own
    /// the field itself, only what is in it.
    pub inline: bool,
}

/// The schema of a value as far as merging needs it. Cheap to copy: a reference.
pub trait Topology: Copy {
    /// How this value takes part; a value of another JSON type than the schema's is [`Relation::Atomic`].
    fn relation(self, value: &Value) -> Relation;
    /// A field of an object.
    fn child(self, name: &str) -> Child<Self>;
    /// The elements of a list.
    fn element(self) -> Self;
    /// The key fields of a [`Relation::Keyed`] list in order, each with its default.
    fn key_fields(self, see: &mut dyn FnMut(&str, Option<&Value>));
}

/// The step to an element of a list that is [`Relation::Keyed`] or [`Relation::Set`].
///
/// # Errors
/// [`ApplyError::Misfit`] if it cannot be told apart: no key field, or no scalar in a set.
pub(super) fn element_step<T: Topology>(
    list: T,
    relation: Relation,
    element: &Value,
    index: usize,
) -> Result<Step, ApplyError> {
    let misfit = |reason: String| ApplyError::Misfit {
        path: format!("element {index}"),
        reason,
    };
    if relation == Relation::Set {
        return match element {
            Value::Null => Err(misfit(
                "associative list without keys has an element that is null".to_owned(),
            )),
            // Sets of atomic lists and objects are rare but legal.
            value => Ok(Step::value(value)),
        };
    }
    let Value::Object(fields) = element else {
        return Err(misfit(
            "associative list with keys may not have non-map elements".to_owned(),
        ));
    };
    let mut key = serde_json::Map::new();
    let mut names = vec![];
    list.key_fields(&mut |name, default| {
        names.push(format!("{name:?}"));
        if let Some(value) = fields.get(name).filter(|value| !value.is_null()).or(default) {
            key.insert(name.to_owned(), value.clone());
        }
    });
    if key.is_empty() {
        let names = names.join(" ");
        return Err(misfit(format!(
            "associative list with keys has an element that omits all key fields [{names}] (and doesn't have default values for any key fields)"
        )));
    }
    Ok(Step::key(key))
}

/// What the table says about a value of a built-in kind.
#[derive(Debug)]
pub(super) enum Kind {
    /// Nothing special: objects are structs all the way down, lists are atomic.
    Plain,
    /// A struct; a field that is not listed is [`Kind::Plain`].
    Struct(&'static [Field]),
    /// A map of names to values of one type.
    Map(&'static Kind),
    /// A list by keys, with the fields of its elements.
    Keyed(&'static [&'static str], &'static Kind),
    /// A list as a set.
    Set,
    /// One thing.
    Atomic,
}

/// A field of a struct.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: &'static Kind,
    pub(super) inline: bool,
}

pub(super) const fn field(name: &'static str, kind: &'static Kind) -> Field {
    Field {
        name,
        kind,
        inline: false,
    }
}

/// A field that every object has, if only empty.
pub(super) const fn by_value(name: &'static str, kind: &'static Kind) -> Field {
    Field {
        name,
        kind,
        inline: true,
    }
}

static PLAIN: Kind = Kind::Plain;

/// The topology of a value of a built-in kind.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn(&'static Kind);

impl BuiltIn {
    /// The topology of `metadata`, the same for every kind.
    #[must_use]
    pub fn metadata() -> Self {
        Self(table::METADATA)
    }
}

/// The topology of a built-in kind; `None` for a custom one, whose definition tells.
#[must_use]
pub fn built_in(api_version: &str, kind: &str) -> Option<BuiltIn> {
    let wanted = (api_version, kind);
    let at = table::KINDS
        .binary_search_by(|(have, _)| have.cmp(&wanted))
        .ok()?;
    table::KINDS.get(at).map(|(_, kind)| BuiltIn(kind))
}

impl Topology for BuiltIn {
    fn relation(self, value: &Value) -> Relation {
        match (self.0, value) {
            (Kind::Plain | Kind::Struct(_) | Kind::Map(_), Value::Object(_)) => Relation::Granular,
            (Kind::Keyed(..), Value::Array(_)) => Relation::Keyed,
            (Kind::Set, Value::Array(_)) => Relation::Set,
            _ => Relation::Atomic,
        }
    }

    fn child(self, name: &str) -> Child<Self> {
        let listed = |fields: &'static [Field]| {
            let at = fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
            fields.get(at)
        };
        match self.0 {
            Kind::Struct(fields) => {
                let field = listed(fields);
                Child {
                    node: Self(field.map_or(&PLAIN, |field| field.kind)),
                    named: true,
                    inline: field.is_some_and(|field| field.inline),
                }
            }
            Kind::Map(values) => Child {
                node: Self(values),
                named: false,
                inline: false,
            },
            _ => Child {
                node: Self(&PLAIN),
                named: true,
                inline: false,
            },
        }
    }

    fn element(self) -> Self {
        match self.0 {
            Kind::Keyed(_, element) => Self(element),
            _ => Self(&PLAIN),
        }
    }

    fn key_fields(self, see: &mut dyn FnMut(&str, Option<&Value>)) {
        let Kind::Keyed(keys, _) = self.0 else {
            return;
        };
        for key in *keys {
            // The only key of a built-in kind with a default.
            if *key == "protocol" {
                see(key, Some(&Value::from("TCP")));
            } else {
                see(key, None);
            }
        }
    }
}
