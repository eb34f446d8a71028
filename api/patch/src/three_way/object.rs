//! One half of the three-way diff, over objects.

use super::{Pass, list::diff_lists};
use crate::{
    PatchError,
    document::{Document, Object},
    path::Path,
    schema::{Node, Strategy},
    strategic::{directive::RETAIN_KEYS, metadata},
};

/// The patch that leads from `original` to `modified`, as far as the pass goes; `retain` asks for `$retainKeys`.
pub(super) fn diff_objects<'a>(
    original: &Object<'a>,
    modified: &Object<'a>,
    node: &'static Node,
    pass: Pass,
    retain: bool,
    path: &Path<'_>,
) -> Result<Object<'a>, PatchError> {
    let mut patch = Object::new();
    for (name, wanted) in modified.iter() {
        match (original.get(name), wanted) {
            (Some(Document::Object(present)), Document::Object(wanted)) => {
                let (strategy, child) = metadata(node, name);
                if strategy == Strategy::Replace {
                    if pass == Pass::Changes {
                        patch.insert(name.clone(), Document::Object(wanted.clone()));
                    }
                    continue;
                }
                let retain = strategy.retains_keys();
                let change = diff_objects(present, wanted, child, pass, retain, &path.field(name))?;
                if !change.is_empty() {
                    patch.insert(name.clone(), Document::Object(change));
                }
            }
            (Some(Document::List(present)), Document::List(list)) => match node.field(name) {
                Some(field) if field.strategy.merges() => {
                    diff_lists(present, list, field, pass, &mut patch, &path.field(name))?;
                }
                _ if pass == Pass::Changes && present != list => {
                    patch.insert(name.clone(), wanted.clone());
                }
                _ => {}
            },
            (present, wanted) => {
                if pass == Pass::Changes && present != Some(wanted) {
                    patch.insert(name.clone(), wanted.clone());
                }
            }
        }
    }
    if pass == Pass::Deletions {
        for name in original.names().filter(|name| !modified.contains(name)) {
            patch.insert(name.clone(), Document::Null);
        }
    }
    if retain && (!patch.is_empty() || has_more(original, modified)) {
        let retained = modified.iter().filter(|(_, value)| !value.is_null());
        let retained: Vec<_> = retained.map(|(name, _)| Document::Text(name.clone())).collect();
        if !retained.is_empty() {
            patch.insert(RETAIN_KEYS, Document::List(retained));
        }
    }
    Ok(patch)
}

/// True when `original` has a field, other than null, that `modified` lacks.
fn has_more(original: &Object<'_>, modified: &Object<'_>) -> bool {
    original
        .iter()
        .any(|(name, value)| !value.is_null() && !modified.contains(name))
}
