//! Who set a field; answered from the live object alone, decoding only what is on the way to it.

use serde_json::Value;

use super::{Operation, Step};

/// A manager that owns a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Name of the field manager.
    pub manager: String,
    /// How it wrote.
    pub operation: Operation,
    /// The subresource it wrote through; empty for the object itself.
    pub subresource: String,
    /// Time of its last write to the object, RFC 3339; empty if not known.
    pub time: String,
}

/// The owners of the field at a path, the latest first: the managers that own the field itself or, for an object or
/// list, something in it; if there are none, those that own one of its parents as a whole (an atomic list or object).
///
/// `managed_fields` is `metadata.managedFields`. What does not read as an entry owns nothing.
#[must_use]
pub fn owners(managed_fields: &Value, path: &[Step]) -> Vec<Owner> {
    let wire: Vec<String> = path.iter().map(Step::to_wire).collect();
    find(managed_fields, |fields| {
        let mut at = fields;
        for step in &wire {
            match at.get(step) {
                Some(below) => at = below,
                None => return Claim::of_parent(at),
            }
        }
        Claim::Exact
    })
}

/// [`owners`] of the value at a JSON pointer (RFC 6901) of a live object: list elements are found in the managed
/// fields by their keys, by their value or by their index, whichever the managers used. The empty pointer is the object
/// itself: whoever owns anything of it. Nobody, if the pointer leads nowhere.
///
/// ```
/// # use serde_json::json;
/// use roundhouse_patch::managed::owners_at;
/// let live = json!({
///     "metadata": {"managedFields": [{
///         "manager": "hpa", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
///         "fieldsV1": {"f:spec": {"f:replicas": {}}}, "subresource": "scale", "time": "2026-01-02T03:04:05Z",
///     }]},
///     "spec": {"replicas": 3},
/// });
/// assert_eq!(owners_at(&live, "/spec/replicas")[0].manager, "hpa");
/// ```
#[must_use]
pub fn owners_at(live: &Value, pointer: &str) -> Vec<Owner> {
    let Some(trail) = trail(live, pointer) else {
        return vec![];
    };
    let managed_fields = live.pointer("/metadata/managedFields").unwrap_or(&Value::Null);
    find(managed_fields, |fields| claim(fields, &trail))
}

/// One part of a pointer with what it leads to.
enum Place<'a> {
    Field(String),
    Element(usize, &'a Value),
}

fn trail<'a>(live: &'a Value, pointer: &str) -> Option<Vec<Place<'a>>> {
    let mut at = live;
    let mut out = vec![];
    if pointer.is_empty() {
        return Some(out);
    }
    for part in pointer.strip_prefix('/')?.split('/') {
        let part = part.replace("~1", "/").replace("~0", "~");
        match at {
            Value::Object(fields) => {
                at = fields.get(&part)?;
                out.push(Place::Field(format!("f:{part}")));
            }
            Value::Array(items) => {
                let index = part.parse().ok()?;
                at = items.get(index)?;
                out.push(Place::Element(index, at));
            }
            _ => return None,
        }
    }
    Some(out)
}

/// What a set says about a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claim {
    None,
    /// A parent is in the set and nothing below it: with an atomic parent that is everything in it.
    Whole,
    /// The field is in the set, or something in it.
    Exact,
}

impl Claim {
    fn of_parent(fields: &Value) -> Self {
        match fields.as_object() {
            Some(below) if below.is_empty() => Self::Whole,
            _ => Self::None,
        }
    }
}

fn claim(fields: &Value, trail: &[Place<'_>]) -> Claim {
    let Some((place, rest)) = trail.split_first() else {
        return Claim::Exact;
    };
    let below = match place {
        Place::Field(wire) => fields.get(wire),
        Place::Element(index, element) => fields
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(wire, _)| wire.starts_with(['k', 'v', 'i']))
            .find(|(wire, _)| Step::from_wire(wire).is_ok_and(|step| step.leads_to(element, *index)))
            .map(|(_, below)| below),
    };
    below.map_or_else(|| Claim::of_parent(fields), |below| claim(below, rest))
}

fn find(managed_fields: &Value, claim: impl Fn(&Value) -> Claim) -> Vec<Owner> {
    let entries = managed_fields.as_array().into_iter().flatten();
    let claims = entries.filter_map(|entry| {
        let text = |key: &str| {
            entry
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        // An entry without any field owns nothing, least of all the whole object.
        let fields = entry
            .get("fieldsV1")
            .filter(|f| f.as_object().is_some_and(|f| !f.is_empty()))?;
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let owner = Owner {
            manager: text("manager"),
            operation,
            subresource: text("subresource"),
            time: text("time"),
        };
        Some((claim(fields), owner))
    });
    let claims: Vec<(Claim, Owner)> = claims.filter(|(claim, _)| *claim != Claim::None).collect();
    let exact = claims.iter().any(|(claim, _)| *claim == Claim::Exact);
    let wanted = if exact { Claim::Exact } else { Claim::Whole };
    let mut owners: Vec<Owner> = claims
        .into_iter()
        .filter(|(claim, _)| *claim == wanted)
        .map(|(_, owner)| owner)
        .collect();
    owners.sort_by(|a, b| b.time.cmp(&a.time));
    owners
}
