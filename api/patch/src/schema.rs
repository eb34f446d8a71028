//! Which lists merge by which key: the patch metadata of Kubernetes' built-in kinds.

/// Identifies a kind the way a manifest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk<'a> {
    /// `group/version`, or `version` for the core group.
    pub api_version: &'a str,
    /// The kind, in CamelCase.
    pub kind: &'a str,
}

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
pub static PLAIN: Node = Node {
    fields: &[],
    values: None,
};

impl Node {
    /// The metadata of the field `name`, if it has any.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        self.fields.get(at)
    }
}

/// The metadata of a built-in kind; `None` for a custom kind, which is patched by JSON merge.
#[must_use]
pub fn lookup(api_version: &str, kind: &str) -> Option<&'static Node> {
    let wanted = Gvk { api_version, kind };
    let at = KINDS.binary_search_by(|(gvk, _)| gvk.cmp(&wanted)).ok()?;
    KINDS.get(at).map(|(_, node)| *node)
}

static KINDS: &[(Gvk<'static>, &Node)] = &[
    (
        Gvk {
            api_version: "apps/v1",
            kind: "Deployment",
        },
        &WORKLOAD,
    ),
    (
        Gvk {
            api_version: "v1",
            kind: "ConfigMap",
        },
        &OBJECT,
    ),
];

static OBJECT: Node = Node {
    fields: &[METADATA],
    values: None,
};
const METADATA: Field = Field {
    name: "metadata",
    strategy: Strategy::Default,
    merge_key: None,
    child: Some(&OBJECT_META),
};
static OBJECT_META: Node = Node {
    fields: &[
        Field {
            name: "finalizers",
            strategy: Strategy::Merge,
            merge_key: None,
            child: None,
        },
        Field {
            name: "ownerReferences",
            strategy: Strategy::Merge,
            merge_key: Some("uid"),
            child: None,
        },
    ],
    values: None,
};
static WORKLOAD: Node = Node {
    fields: &[
        METADATA,
        Field {
            name: "spec",
            strategy: Strategy::Default,
            merge_key: None,
            child: Some(&SPEC),
        },
    ],
    values: None,
};
static SPEC: Node = Node {
    fields: &[Field {
        name: "strategy",
        strategy: Strategy::RetainKeys,
        merge_key: None,
        child: None,
    }],
    values: None,
};
