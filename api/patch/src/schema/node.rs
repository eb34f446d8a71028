//! The shape of patch metadata.

/// How a strategic merge patch treats a field, from `x-kubernetes-patch-strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Nothing stated: objects merge, lists are replaced.
    #[default]
    Default,
    /// `merge`: a list of objects merges by its key, a list of scalars as a set.
    Merge,
    /// `replace`: the whole value is replaced, an object too.
    Replace,
    /// `retainKeys`: an object merges, fields that the patch does not list are dropped.
    RetainKeys,
    /// `merge,retainKeys`: a list merges by its key, and each element is treated as `retainKeys`.
    MergeRetainKeys,
}

impl Strategy {
    /// A list with this strategy merges element by element.
    #[must_use]
    pub fn merges(self) -> bool {
        matches!(self, Self::Merge | Self::MergeRetainKeys)
    }

    /// An object (or list element) with this strategy keeps only the fields the patch retains.
    #[must_use]
    pub fn retains_keys(self) -> bool {
        matches!(self, Self::RetainKeys | Self::MergeRetainKeys)
    }
}

/// Patch metadata of one type: a struct with named fields, or a map whose values are all of one type.
#[derive(Debug)]
pub struct Node {
    /// Fields that have metadata themselves or below them, sorted by name. A field that is not listed merges
    /// (object) or is replaced (everything else).
    pub fields: &'static [Field],
    /// For a map of names to structs: the type of each value.
    pub values: Option<&'static Node>,
}

/// Patch metadata of one field.
#[derive(Debug)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// How the field is patched.
    pub strategy: Strategy,
    /// The field that identifies the elements of this list, for a list of objects that merges.
    pub merge_key: Option<&'static str>,
    /// Metadata of the value, or of the elements if the value is a list.
    pub child: Option<&'static Node>,
}

/// A type without metadata: objects merge, lists are replaced.
pub static PLAIN: Node = Node::of(&[]);

impl Node {
    /// The metadata of the field `name`, if it has any.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        // Most structs list one to three fields.
        if self.fields.len() <= 4 {
            return self.fields.iter().find(|field| field.name == name);
        }
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(at)
    }

    pub(super) const fn of(fields: &'static [Field]) -> Self {
        Self { fields, values: None }
    }
}

/// An object with metadata below it.
pub(super) const fn object(name: &'static str, child: &'static Node) -> Field {
    Field {
        name,
        strategy: Strategy::Default,
        merge_key: None,
        child: Some(child),
    }
}

/// A list of objects that merges by `key`.
pub(super) const fn list(name: &'static str, key: &'static str, child: Option<&'static Node>) -> Field {
    Field {
        name,
        strategy: Strategy::Merge,
        merge_key: Some(key),
        child,
    }
}

/// A list of objects that merges by `key`, whose elements retain only the fields the patch lists.
pub(super) const fn retain_list(
    name: &'static str,
    key: &'static str,
    child: Option<&'static Node>,
) -> Field {
    Field {
        name,
        strategy: Strategy::MergeRetainKeys,
        merge_key: Some(key),
        child,
    }
}

/// A list of scalars that merges as a set.
pub(super) const fn set(name: &'static str) -> Field {
    Field {
        name,
        strategy: Strategy::Merge,
        merge_key: None,
        child: None,
    }
}

/// An object that retains only the fields the patch lists.
pub(super) const fn retain(name: &'static str, child: Option<&'static Node>) -> Field {
    Field {
        name,
        strategy: Strategy::RetainKeys,
        merge_key: None,
        child,
    }
}

/// An object that is replaced whole.
pub(super) const fn replace(name: &'static str) -> Field {
    Field {
        name,
        strategy: Strategy::Replace,
        merge_key: None,
        child: None,
    }
}
