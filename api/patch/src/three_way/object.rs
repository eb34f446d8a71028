//! One half of the three-way diff, over objects.

use serde_json::{Map, Value};

use super::{Pass, list::diff_lists};
use crate::{
    PatchError,
    path::Path,
    schema::{Node, Strategy},
    strategic::{directive::RETAIN_KEYS, metadata},
};

/// The patch that leads from `original` to `modified`, as far as the pass goes; `retain` asks for `$retainKeys`.
pub(super) fn diff_objects(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    node: &'static Node,
    pass: Pass,
    retain: bool,
    path: &Path<'_>,
) -> Result<Map<String, Value>, PatchError> {
    let mut patch = Map::new();
    for (name, wanted) in modified {
        match (original.get(name), wanted) {
            (Some(Value::Object(present)), Value::Object(wanted)) => {
                let (strategy, child) = metadata(node, name);
                if strategy == Strategy::Replace {
                    if pass == Pass::Changes {
                        patch.insert(name.clone(), Value::Object(wanted.clone()));
                    }
                    continue;
                }
                let retain = strategy.retains_keys();
                let change = diff_objects(present, wanted, child, pass, retain, &path.field(name))?;
                if !change.is_empty() {
                    patch.insert(name.clone(), Value::Object(change));
                }
            }
            (Some(Value::Array(present)), Value::Array(list)) => match node.field(name) {
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
        let gone = original.keys().filter(|name| !modified.contains_key(*name));
        patch.extend(gone.map(|name| (name.clone(), Value::Null)));
    }
    if retain && (!patch.is_empty() || has_more(original, modified)) {
        let mut retained: Vec<&String> = modified
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, _)| name)
            .collect();
        retained.sort_unstable();
        if !retained.is_empty() {
            let retained = retained
                .into_iter()
                .map(|name| Value::from(name.as_str()))
                .collect();
            patch.insert(RETAIN_KEYS.to_owned(), Value::Array(retained));
        }
    }
    Ok(patch)
}

/// True when `original` has a field, other than null, that `modified` lacks.
fn has_more(original: &Map<String, Value>, modified: &Map<String, Value>) -> bool {
    original
        .iter()
        .any(|(name, value)| !value.is_null() && !modified.contains_key(name))
}
