//! Merging the elements of lists: objects by their merge key, scalars as sets. Their order is settled afterwards.

use super::{
    Mode,
    directive::{self, Whole, settle},
    object::{merge_objects, settled_list},
    order::Positions,
};
use crate::{
    PatchError,
    document::{Document, Object},
    path::Path,
    schema::{Field, PLAIN},
};

/// What a merging list holds; all its elements are of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    Object,
    Text,
    Boolean,
    Integer,
    Float,
}

/// The one type of all elements of these lists; `None` when they are all empty.
pub(crate) fn element_type(
    lists: &[&[Document<'_>]],
    path: &Path<'_>,
) -> Result<Option<ElementType>, PatchError> {
    let mut common = None;
    for element in lists.iter().copied().flatten() {
        let this = match element {
            Document::Object(_) => ElementType::Object,
            Document::Text(_) => ElementType::Text,
            Document::Boolean(_) => ElementType::Boolean,
            Document::Number(number) if number.is_f64() => ElementType::Float,
            Document::Number(_) => ElementType::Integer,
            Document::List(_) => {
                let path = path.to_string();
                return Err(PatchError::ListOfLists { path });
            }
            Document::Null => {
                return Err(path.wrong_type("a list of objects or of scalars", element));
            }
        };
        if common.is_some_and(|common| common != this) {
            return Err(path.wrong_type(
                "elements of one type, of which the first is not one like this",
                element,
            ));
        }
        common = Some(this);
    }
    Ok(common)
}

/// A list after its elements were merged, with what is needed to order them.
#[derive(Default)]
pub(super) struct Merged<'a> {
    pub(super) items: Vec<Document<'a>>,
    /// How many of `items`, from the first, count as the server's when the patch's own order is applied.
    pub(super) server: usize,
    /// The same when a `$setElementOrder` is applied: elements appended by the patch take the places of deleted ones.
    pub(super) server_before_deletes: usize,
    /// The patch's elements that were not directives, by key or value.
    pub(super) order: Vec<Document<'a>>,
}

impl<'a> Merged<'a> {
    /// A list none of whose elements the patch orders.
    pub(super) fn of_server(items: Vec<Document<'a>>) -> Self {
        Self {
            server: items.len(),
            server_before_deletes: items.len(),
            items,
            order: Vec::new(),
        }
    }
}

/// Merges the elements of a list whose strategy is `merge`.
pub(super) fn merge_elements<'a>(
    items: Vec<Document<'a>>,
    changes: Vec<Document<'a>>,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Merged<'a>, PatchError> {
    match (element_type(&[&items, &changes], path)?, field.merge_key) {
        (None, _) => Ok(Merged::default()),
        (Some(ElementType::Object), Some(key)) => merge_by_key(items, changes, key, field, mode, path),
        (Some(ElementType::Object), None) => {
            Err(path.impossible("this list holds scalars, it cannot merge objects: they have no merge key"))
        }
        (Some(_), Some(key)) => Err(path.missing_key(key)),
        (Some(_), None) => Ok(merge_scalars(items, changes)),
    }
}

/// Removes scalars from a list.
pub(super) fn delete_scalars(
    items: &mut Vec<Document<'_>>,
    doomed: &[Document<'_>],
    path: &Path<'_>,
) -> Result<(), PatchError> {
    match element_type(&[items, doomed], path)? {
        None => Ok(()),
        Some(ElementType::Object) => Err(path.impossible("only scalars can be deleted from a list this way")),
        Some(_) => {
            let doomed = Positions::new(doomed.iter().collect());
            items.retain(|item| doomed.of(item).is_none());
            Ok(())
        }
    }
}

fn merge_scalars<'a>(items: Vec<Document<'a>>, changes: Vec<Document<'a>>) -> Merged<'a> {
    let all = Positions::new(items.iter().chain(&changes).collect());
    let union = items.iter().chain(&changes).enumerate();
    let first: Vec<bool> = union.map(|(at, item)| all.of(item) == Some(at)).collect();
    let server = first.iter().take(items.len()).filter(|first| **first).count();
    let order = changes.clone();
    let union = items.into_iter().chain(changes).zip(first);
    let items = union.filter_map(|(item, first)| first.then_some(item)).collect();
    Merged {
        items,
        server,
        server_before_deletes: server,
        order,
    }
}

fn merge_by_key<'a>(
    mut items: Vec<Document<'a>>,
    changes: Vec<Document<'a>>,
    key: &'static str,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Merged<'a>, PatchError> {
    let server_before_deletes = items.len();
    let mut replace = false;
    let mut doomed = Vec::new();
    let mut plain = Vec::with_capacity(changes.len());
    for (at, change) in changes.into_iter().enumerate() {
        let Document::Object(change) = change else {
            continue;
        };
        match directive::whole(&change, &path.index(at))? {
            None => plain.push(change),
            Some(Whole::Replace) => replace = true,
            Some(Whole::Delete) => match change.get(key) {
                Some(value) => doomed.push(value.clone()),
                None => return Err(path.index(at).missing_key(key)),
            },
        }
    }
    if replace {
        return Ok(Merged::of_server(settled_list(
            plain.into_iter().map(Document::Object).collect(),
            mode,
        )));
    }
    if !doomed.is_empty() {
        let doomed = Positions::new(doomed.iter().collect());
        items.retain(|item| item.get(key).is_none_or(|value| doomed.of(value).is_none()));
    }
    let server = items.len();
    let order = merge_plain(&mut items, plain, key, field, mode, path)?;
    Ok(Merged {
        items,
        server,
        server_before_deletes,
        order,
    })
}

/// Merges each change into the first element with its key, or appends it; returns the keys in the changes' order.
fn merge_plain<'a>(
    items: &mut Vec<Document<'a>>,
    changes: Vec<Object<'a>>,
    key: &'static str,
    field: &'static Field,
    mode: Mode,
    path: &Path<'_>,
) -> Result<Vec<Document<'a>>, PatchError> {
    let mut order = Vec::with_capacity(changes.len());
    for (at, change) in changes.iter().enumerate() {
        order.push(
            change
                .get(key)
                .ok_or_else(|| path.index(at).missing_key(key))?
                .clone(),
        );
    }
    // Where each key is in `items`, or will be once the changes before it are appended.
    let mut places = Vec::with_capacity(order.len());
    let mut appended = items.len();
    let keyed = items
        .iter()
        .enumerate()
        .filter_map(|(at, item)| Some((at, item.get(key)?)));
    let (known, keys): (Vec<usize>, Vec<&Document<'a>>) = keyed.unzip();
    let keys = Positions::new(keys.into_iter().chain(&order).collect());
    for (at, value) in order.iter().enumerate() {
        let first = keys.of(value).unwrap_or(known.len() + at);
        let place = match known.get(first) {
            Some(known) => *known,
            None => places.get(first - known.len()).copied().unwrap_or(appended),
        };
        appended += usize::from(place == appended);
        places.push(place);
    }
    for (at, (change, place)) in changes.into_iter().zip(places).enumerate() {
        if let Some(Document::Object(element)) = items.get_mut(place) {
            merge_objects(
                element,
                change,
                field.child.unwrap_or(&PLAIN),
                mode,
                &path.index(at),
            )?;
            continue;
        }
        let mut element = Document::Object(change);
        if mode == Mode::Apply {
            settle(&mut element);
        }
        items.push(element);
    }
    Ok(order)
}
