//! Merging lists: their elements first, then the order.

use super::{
    Mode,
    directive::{carries_patch, is_delete},
    elements::{Merged, merge_elements},
    object::settled_list,
    order::{Placed, Positions, arrange, take_in_order},
};
use crate::{PatchError, document::Document, path::Path, schema::Field};

/// Merges a list whose strategy is `merge`, without `$setElementOrder`: the patch's own order is kept.
pub(super) fn merge_lists<'a>(
    items: Vec<Document<'a>>,
    changes: Vec<Document<'a>>,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Vec<Document<'a>>, PatchError> {
    let merged = merge_elements(items, changes, field, mode, path)?;
    let wanted = Positions::new(merged.order.iter().collect());
    let placed = place(&merged.items, field.merge_key, &wanted, merged.server, path)?;
    Ok(take_in_order(merged.items, &arrange(&placed)))
}

/// Merges a list and orders it by `order`, the value of its `$setElementOrder`.
pub(super) fn merge_lists_ordered<'a>(
    items: Option<Vec<Document<'a>>>,
    changes: Option<Vec<Document<'a>>>,
    order: &[Document<'a>],
    field: Option<&'static Field>,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Vec<Document<'a>>, PatchError> {
    let key = field.and_then(|field| field.merge_key);
    if let Some(changes) = &changes {
        check_order(changes, order, key, path)?;
    }
    let merging = field.filter(|field| field.strategy.merges());
    let merged = match (items, changes, merging) {
        (Some(items), Some(changes), Some(field)) => merge_elements(items, changes, field, mode, path)?,
        (_, Some(changes), _) => Merged {
            items: settled_list(changes, mode),
            ..Merged::default()
        },
        (items, None, _) => Merged::of_server(items.unwrap_or_default()),
    };
    let wanted = order
        .iter()
        .enumerate()
        .map(|(at, entry)| identity(entry, key, &path.index(at)));
    let wanted = Positions::new(wanted.collect::<Result<_, _>>()?);
    let placed = place(&merged.items, key, &wanted, merged.server_before_deletes, path)?;

    // The patch's own order comes first; it only decides between elements that share a key.
    let own = Positions::new(merged.order.iter().collect());
    let own = arrange(&place(&merged.items, key, &own, merged.server, path)?);
    let placed: Vec<Placed> = own
        .iter()
        .filter_map(|own| placed.get(own.element).copied())
        .collect();
    Ok(take_in_order(merged.items, &arrange(&placed)))
}

/// Where each element belongs: by `wanted`, and by the first `server` elements of the list itself.
fn place(
    items: &[Document<'_>],
    key: Option<&'static str>,
    wanted: &Positions<'_, '_>,
    server: usize,
    path: &Path<'_>,
) -> Result<Vec<Placed>, PatchError> {
    let identities = items
        .iter()
        .enumerate()
        .map(|(at, item)| identity(item, key, &path.index(at)));
    let identities: Vec<&Document<'_>> = identities.collect::<Result<_, _>>()?;
    let on_server = Positions::new(identities.iter().take(server).copied().collect());
    let placed = identities
        .into_iter()
        .zip(items)
        .enumerate()
        .map(|(element, (identity, item))| Placed {
            element,
            wanted: wanted.of(identity),
            server: on_server.of(identity),
            delete: is_delete(item),
        });
    Ok(placed.collect())
}

/// What identifies an element in its list: its merge key, or itself.
fn identity<'d, 'a>(
    element: &'d Document<'a>,
    key: Option<&str>,
    path: &Path<'_>,
) -> Result<&'d Document<'a>, PatchError> {
    match (element, key) {
        (Document::Object(fields), Some(key)) => fields.get(key).ok_or_else(|| path.missing_key(key)),
        (other, Some(_)) => Err(path.wrong_type("an object", other)),
        (element, None) => Ok(element),
    }
}

/// Refuses a patch whose list is not a subsequence of its `$setElementOrder`.
fn check_order(
    changes: &[Document<'_>],
    order: &[Document<'_>],
    key: Option<&'static str>,
    path: &Path<'_>,
) -> Result<(), PatchError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter().enumerate();
    for (at, change) in changes
        .iter()
        .enumerate()
        .filter(|(_, change)| !carries_patch(change))
    {
        let wanted = identity(change, key, &path.index(at))?;
        let mut listed = false;
        for (entry, value) in order.by_ref() {
            if identity(value, key, &path.index(entry))? == wanted {
                listed = true;
                break;
            }
        }
        if !listed {
            let reason =
                format!("{wanted} is missing from $setElementOrder, or stands there in another order");
            return Err(path.index(at).impossible(reason));
        }
    }
    Ok(())
}
