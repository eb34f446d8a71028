//! An object as a sorted list of fields: Kubernetes' objects are small, and sorted as servers print them.

use std::borrow::Cow;

use super::Document;

/// Up to this many fields a scan beats a binary search.
const SCAN_UP_TO: usize = 8;

/// The fields of a JSON object, sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Object<'a> {
    fields: Vec<(Cow<'a, str>, Document<'a>)>,
}

impl<'a> Object<'a> {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sorts the fields; of two with one name the later stays, as JSON parsers have it.
    pub(crate) fn from_fields(mut fields: Vec<(Cow<'a, str>, Document<'a>)>) -> Self {
        if !fields.is_sorted_by(|left, right| left.0 < right.0) {
            fields.reverse();
            fields.sort_by(|left, right| left.0.cmp(&right.0));
            fields.dedup_by(|later, first| later.0 == first.0);
        }
        Self { fields }
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.fields.binary_search_by(|(other, _)| (**other).cmp(name))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Document<'a>> {
        if self.fields.len() <= SCAN_UP_TO {
            return self
                .fields
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, value)| value);
        }
        self.position(name)
            .ok()
            .and_then(|at| self.fields.get(at))
            .map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Document<'a>> {
        let at = self.position(name).ok()?;
        self.fields.get_mut(at).map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn insert(&mut self, name: impl Into<Cow<'a, str>>, value: Document<'a>) {
        let name = name.into();
        // Fields mostly arrive in order.
        if self.fields.last().is_none_or(|(last, _)| *last < name) {
            self.fields.push((name, value));
            return;
        }
        match self.position(&name) {
            Ok(at) => {
                if let Some((_, old)) = self.fields.get_mut(at) {
                    *old = value;
                }
            }
            Err(at) => self.fields.insert(at, (name, value)),
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Document<'a>> {
        self.position(name).ok().map(|at| self.fields.remove(at).1)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&str, &mut Document<'a>) -> bool) {
        self.fields.retain_mut(|(name, value)| keep(name, value));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Cow<'a, str>> {
        self.fields.iter().map(|(name, _)| name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Cow<'a, str>, &Document<'a>)> {
        self.fields.iter().map(|(name, value)| (name, value))
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Document<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.fields.into_iter()
    }
}

impl<'a> FromIterator<(Cow<'a, str>, Document<'a>)> for Object<'a> {
    fn from_iter<I: IntoIterator<Item = (Cow<'a, str>, Document<'a>)>>(fields: I) -> Self {
        Self::from_fields(fields.into_iter().collect())
    }
}
