//! The order of a merged list: what the patch asks for first, the server's own elements kept in theirs.

use std::collections::HashMap;

use crate::document::Document;

/// Below this many entries a scan beats hashing.
const SCAN_UP_TO: usize = 16;

/// Finds the first position of a value (a merge key, or a scalar element).
pub(crate) enum Positions<'p, 'a> {
    Scan(Vec<&'p Document<'a>>),
    Hashed(HashMap<&'p Document<'a>, usize>),
}

impl<'p, 'a> Positions<'p, 'a> {
    pub(crate) fn new(values: Vec<&'p Document<'a>>) -> Self {
        if values.len() <= SCAN_UP_TO {
            return Self::Scan(values);
        }
        let mut first = HashMap::with_capacity(values.len());
        for (at, value) in values.into_iter().enumerate() {
            first.entry(value).or_insert(at);
        }
        Self::Hashed(first)
    }

    pub(crate) fn of(&self, value: &Document<'a>) -> Option<usize> {
        match self {
            Self::Scan(values) => values.iter().position(|candidate| *candidate == value),
            Self::Hashed(first) => first.get(value).copied(),
        }
    }
}

/// One element of a merged list while its place is sought.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    /// Index into the list before ordering.
    pub(crate) element: usize,
    /// Place in the order the patch asks for; `None` for an element only the server has.
    pub(crate) wanted: Option<usize>,
    /// Place in the list as the server has it; `None` for a new element.
    pub(crate) server: Option<usize>,
    /// The element is a `$patch: delete` (only while two patches are combined); such go last.
    pub(crate) delete: bool,
}

/// Orders a merged list as Kubernetes does: elements the patch orders, in its order; elements only the server has, in
/// the server's order; the two sequences interleaved by the server's order where it knows both.
///
/// Source: Kubernetes design proposal "preserve order in strategic merge patch".
pub(crate) fn arrange(elements: &[Placed]) -> Vec<Placed> {
    let (mut wanted, mut server): (Vec<Placed>, Vec<Placed>) = elements
        .iter()
        .copied()
        .partition(|element| element.wanted.is_some());
    wanted.sort_by_key(|element| (element.delete, element.wanted));
    server.sort_by_key(|element| (element.delete, element.server));

    let mut arranged = Vec::with_capacity(elements.len());
    let (mut wanted, mut server) = (wanted.into_iter().peekable(), server.into_iter().peekable());
    while let (Some(ours), Some(theirs)) = (wanted.peek(), server.peek()) {
        let theirs_first =
            matches!((theirs.server, ours.server), (Some(theirs), Some(ours)) if theirs < ours);
        arranged.extend(if theirs_first {
            server.next()
        } else {
            wanted.next()
        });
    }
    arranged.extend(server);
    arranged.extend(wanted);
    arranged
}

/// Takes the elements out of `list` in the arranged order.
pub(crate) fn take_in_order<'a>(list: Vec<Document<'a>>, order: &[Placed]) -> Vec<Document<'a>> {
    if order.iter().enumerate().all(|(at, placed)| placed.element == at) {
        return list;
    }
    let mut list: Vec<Option<Document<'a>>> = list.into_iter().map(Some).collect();
    order
        .iter()
        .filter_map(|placed| list.get_mut(placed.element).and_then(Option::take))
        .collect()
}
