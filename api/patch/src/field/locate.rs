//! Which locations of a document a path selects.

use serde_json::Value;

use super::{FieldPath, Step, pointer};

impl FieldPath {
    /// The locations of `document` that the path selects: JSON pointer (RFC 6901) and value, in the document's order.
    #[must_use]
    pub fn select<'d>(&self, document: &'d Value) -> Vec<(String, &'d Value)> {
        let mut found = Vec::new();
        walk(&self.steps, document, &mut String::new(), &mut found);
        found
    }

    /// The one location that the path names, whatever the document; `None` for a path with filters, `*` or elements
    /// counted from the end.
    ///
    /// ```
    /// use roundhouse_patch::field::FieldPath;
    /// let path = FieldPath::parse("spec.ports[0].nodePort")?;
    /// assert_eq!(path.pointer().as_deref(), Some("/spec/ports/0/nodePort"));
    /// # Ok::<(), roundhouse_patch::field::FieldPathError>(())
    /// ```
    #[must_use]
    pub fn pointer(&self) -> Option<String> {
        let mut location = String::new();
        for step in &self.steps {
            match step {
                Step::Field(name) => pointer::push(&mut location, name),
                Step::Index(index) => pointer::push(&mut location, &u32::try_from(*index).ok()?.to_string()),
                Step::Every | Step::Where(_) => return None,
            }
        }
        Some(location)
    }

    /// Whether the location that a JSON pointer names is selected, or lies within something that is. A path without
    /// filters also covers what the document does not have.
    ///
    /// ```
    /// use roundhouse_patch::field::FieldPath;
    /// let web = serde_json::json!({"containers": [{"name": "log"}, {"name": "main", "image": "i"}]});
    /// let path = FieldPath::parse("containers[name=main]")?;
    /// assert!(path.covers(&web, "/containers/1/image"));
    /// assert!(!path.covers(&web, "/containers/0"));
    /// # Ok::<(), roundhouse_patch::field::FieldPathError>(())
    /// ```
    #[must_use]
    pub fn covers(&self, document: &Value, location: &str) -> bool {
        if let Some(named) = self.pointer() {
            return pointer::is_within(location, &named);
        }
        self.select(document)
            .iter()
            .any(|(selected, _)| pointer::is_within(location, selected))
    }
}

fn walk<'d>(steps: &[Step], value: &'d Value, at: &mut String, found: &mut Vec<(String, &'d Value)>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push((at.clone(), value));
        return;
    };
    let mut go = |token: &str, value: &'d Value| {
        let before = at.len();
        pointer::push(at, token);
        walk(rest, value, at, found);
        at.truncate(before);
    };
    match value {
        Value::Object(fields) => match step {
            Step::Field(name) => {
                if let Some(field) = fields.get(name) {
                    go(name, field);
                }
            }
            Step::Every => fields.iter().for_each(|(name, field)| go(name, field)),
            Step::Index(_) | Step::Where(_) => {}
        },
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                if step.takes(place, item, items.len()) {
                    go(&place.to_string(), item);
                }
            }
        }
        _ => {}
    }
}

impl Step {
    /// Whether this step goes to the element at `place` of a list of `length` elements.
    pub(super) fn takes(&self, place: usize, element: &Value, length: usize) -> bool {
        match self {
            Step::Every => true,
            Step::Where(filter) => filter.passes(element),
            Step::Index(_) | Step::Field(_) => self.place(length) == Some(place),
        }
    }

    /// The place in a list of `length` elements that a number means.
    pub(super) fn place(&self, length: usize) -> Option<usize> {
        match self {
            Step::Index(index) if *index < 0 => {
                let back = usize::try_from(index.unsigned_abs()).ok()?;
                length.checked_sub(back)
            }
            Step::Index(index) => usize::try_from(*index).ok(),
            // A JSON pointer does not tell elements from fields.
            Step::Field(name) => name.parse().ok(),
            Step::Every | Step::Where(_) => None,
        }
    }
}
