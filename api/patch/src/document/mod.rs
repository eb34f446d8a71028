//! JSON that borrows its texts from what it was read from: three documents, a patch and a result share them.

mod object;
mod text;

use std::{borrow::Cow, fmt};

use serde_json::{Number, Value};

use crate::{MAX_DEPTH, PatchError, path::Path};

pub(crate) use object::Object;
pub(crate) use text::{parse, print};

/// A JSON value. Integers and floats differ (3 is not 3.0), as they do for Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) enum Document<'a> {
    #[default]
    Null,
    Boolean(bool),
    Number(Number),
    Text(Cow<'a, str>),
    List(Vec<Document<'a>>),
    Object(Object<'a>),
}

impl<'a> Document<'a> {
    /// Borrows from a [`Value`].
    ///
    /// # Errors
    /// [`PatchError::TooDeep`]: what is a `Document` nests at most [`MAX_DEPTH`] levels, so that all after may recurse.
    pub(crate) fn borrow(value: &'a Value) -> Result<Self, PatchError> {
        Self::borrow_below(value, &Path::ROOT, MAX_DEPTH)
    }

    fn borrow_below(value: &'a Value, path: &Path<'_>, levels: usize) -> Result<Self, PatchError> {
        let deeper = || {
            levels.checked_sub(1).ok_or_else(|| PatchError::TooDeep {
                path: path.to_string(),
            })
        };
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Boolean(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(items) => {
                let levels = deeper()?;
                let items = items.iter().enumerate();
                let items = items.map(|(at, item)| Self::borrow_below(item, &path.index(at), levels));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let levels = deeper()?;
                let mut object = Vec::with_capacity(fields.len());
                for (name, value) in fields {
                    let value = Self::borrow_below(value, &path.field(name), levels)?;
                    object.push((Cow::Borrowed(name.as_str()), value));
                }
                Self::Object(Object::from_fields(object))
            }
        })
    }

    /// An owned [`Value`].
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::Text(text) => Value::String(text.into_owned()),
            Self::List(items) => Value::Array(items.into_iter().map(Self::into_value).collect()),
            Self::Object(object) => Value::Object(
                object
                    .into_iter()
                    .map(|(name, value)| (name.into_owned(), value.into_value()))
                    .collect(),
            ),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The field of an object; `None` for everything else.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.as_object().and_then(|object| object.get(name))
    }

    /// The JSON type, as messages call it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

impl fmt::Display for Document<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}
