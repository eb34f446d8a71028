//! Keeping live values: what a path selects is taken from the live object, whatever the manifest says.

use serde_json::{Map, Value};

use super::{
    FieldPath, Step,
    pairs::{Shape, partners},
    pointer,
};
use crate::schema::Node;

/// What [`keep`] did, as JSON pointers into the desired object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Locations that the desired object had too; their value may have been the live one before.
    pub overlaid: Vec<String>,
    /// Locations that only the live object had.
    pub added: Vec<String>,
}

impl Kept {
    /// Whether the live object had nothing that the path selects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.overlaid.is_empty() && self.added.is_empty()
    }
}

/// Lays the live value over the desired one at every location that `path` selects.
///
/// A location is looked for in both objects. Elements of lists are paired by the merge key that `schema` has for the
/// list (or by `name`, below a custom kind whose elements all have one), else by place; an index counts in the desired
/// list. So an injected sidecar in front of a container does not shift what `containers[0]` means.
///
/// - Absent in the live object: nothing is kept, the desired value stays, so that a field nobody set is sent once.
/// - Present in the live object only: it is set in the desired one, so that a three-way merge does not remove it.
///   Objects on the way are made, elements of lists are not.
/// - apiVersion, kind, name, namespace, status, and what the server alone writes (uid, resourceVersion, …) stay as
///   desired.
///
/// `schema` is the metadata of the kind, see [`lookup`](crate::schema::lookup); `None` for a custom kind.
///
/// ```
/// use roundhouse_patch::field::{FieldPath, keep};
/// let mut desired = serde_json::json!({"spec": {"replicas": 2, "paused": true}});
/// let live = serde_json::json!({"spec": {"replicas": 7, "paused": false}});
/// let kept = keep(&FieldPath::parse(".spec.replicas")?, &mut desired, &live, None);
/// assert_eq!(desired, serde_json::json!({"spec": {"replicas": 7, "paused": true}}));
/// assert_eq!(kept.overlaid, ["/spec/replicas"]);
/// # Ok::<(), roundhouse_patch::field::FieldPathError>(())
/// ```
pub fn keep(path: &FieldPath, desired: &mut Value, live: &Value, schema: Option<&'static Node>) -> Kept {
    let mut keeper = Keeper {
        at: Vec::new(),
        kept: Kept::default(),
    };
    keeper.lay(&path.steps, desired, live, Shape::root(schema));
    keeper.kept
}

/// Whether a location is the object's identity or the server's own.
fn is_protected(at: &[String]) -> bool {
    match at {
        [field] => matches!(field.as_str(), "apiVersion" | "kind" | "status"),
        [parent, field] if parent == "metadata" => matches!(
            field.as_str(),
            "name"
                | "generateName"
                | "namespace"
                | "uid"
                | "resourceVersion"
                | "generation"
                | "creationTimestamp"
                | "deletionTimestamp"
                | "deletionGracePeriodSeconds"
                | "managedFields"
                | "selfLink"
        ),
        _ => false,
    }
}

struct Keeper {
    /// Where we are in the desired object.
    at: Vec<String>,
    kept: Kept,
}

impl Keeper {
    fn lay(&mut self, steps: &[Step], desired: &mut Value, live: &Value, shape: Shape) {
        let Some((step, rest)) = steps.split_first() else {
            self.overlay(desired, live);
            return;
        };
        match (desired, live) {
            (Value::Object(desired), Value::Object(live)) => match step {
                Step::Field(name) => self.field(name, rest, desired, live, shape),
                Step::Every => {
                    for name in live.keys() {
                        self.field(name, rest, desired, live, shape);
                    }
                }
                Step::Index(_) | Step::Where(_) => {}
            },
            (Value::Array(desired), Value::Array(live)) => self.list(step, rest, desired, live, shape),
            _ => {}
        }
    }

    fn field(
        &mut self,
        name: &str,
        rest: &[Step],
        desired: &mut Map<String, Value>,
        live: &Map<String, Value>,
        shape: Shape,
    ) {
        let Some(theirs) = live.get(name) else { return };
        self.at.push(name.to_owned());
        let below = shape.field(name);
        if is_protected(&self.at) {
            // Stays as desired.
        } else if let Some(ours) = desired.get_mut(name) {
            self.lay(rest, ours, theirs, below);
        } else if rest.is_empty() {
            desired.insert(name.to_owned(), theirs.clone());
            self.kept.added.push(self.pointer());
        } else if theirs.is_object() {
            let mut made = Value::Object(Map::new());
            let before = self.kept.added.len();
            self.lay(rest, &mut made, theirs, below);
            if self.kept.added.len() > before {
                desired.insert(name.to_owned(), made);
            }
        }
        self.at.pop();
    }

    fn list(&mut self, step: &Step, rest: &[Step], desired: &mut Vec<Value>, live: &[Value], shape: Shape) {
        let partners = partners(desired, live, shape);
        let length = desired.len();
        for (place, (theirs, partner)) in live.iter().zip(partners).enumerate() {
            let ours = partner.and_then(|partner| Some((partner, desired.get_mut(partner)?)));
            let Some((partner, ours)) = ours else {
                // An index that the desired list has means its element, not the live one that stands there.
                let means_ours = step.place(length).is_some_and(|wanted| wanted < length);
                if rest.is_empty() && !means_ours && step.takes(place, theirs, live.len()) {
                    self.at.push(desired.len().to_string());
                    desired.push(theirs.clone());
                    self.kept.added.push(self.pointer());
                    self.at.pop();
                }
                continue;
            };
            let by_filter = matches!(step, Step::Where(_)) && step.takes(place, theirs, live.len());
            if step.takes(partner, ours, length) || by_filter {
                self.at.push(partner.to_string());
                self.lay(rest, ours, theirs, shape.element());
                self.at.pop();
            }
        }
    }

    /// The value at the end of a path.
    fn overlay(&mut self, desired: &mut Value, live: &Value) {
        let holds_protected = self.at.is_empty() || self.at == ["metadata"];
        match (holds_protected, desired, live) {
            (true, Value::Object(desired), Value::Object(live)) => {
                desired.retain(|name, _| {
                    self.at.push(name.clone());
                    let stays = live.contains_key(name) || is_protected(&self.at);
                    self.at.pop();
                    stays
                });
                for name in live.keys() {
                    self.field(name, &[], desired, live, Shape::Custom);
                }
            }
            (_, desired, live) => {
                desired.clone_from(live);
                self.kept.overlaid.push(self.pointer());
            }
        }
    }

    fn pointer(&self) -> String {
        let mut text = String::new();
        self.at.iter().for_each(|token| pointer::push(&mut text, token));
        text
    }
}
