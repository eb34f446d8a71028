//! All traits of a component as one strategic merge patch of its workload.

use super::{FieldPath, Segment, Setting, ValidTrait, workload::pod_template};
use roundhouse_patch::{
    PatchError, json_merge,
    schema::{self, Node, PLAIN},
    strategic_merge,
};
use serde_json::{Map, Value, json};

/// Merges traits into the workload of their component, in one change.
///
/// What a workload has keeps its place in its list (containers, variables); what traits add follows, in an order that
/// does not depend on the one they are written in.
///
/// # Errors
/// [`PatchError`] names what in the manifest is not what its kind has there; the manifest is then as it was.
pub fn merge_traits(manifest: &mut Value, traits: &[ValidTrait]) -> Result<(), PatchError> {
    let mut sorted: Vec<(String, &ValidTrait)> = traits.iter().map(|one| (order_key(one), one)).collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut patch = json!({});
    for setting in sorted.iter().flat_map(|(_, one)| &one.settings) {
        insert(&mut patch, Some(manifest), setting.path.segments(), setting);
    }
    let mut merged = manifest.clone();
    // Kinds of others have pod templates as well, and the patch metadata of these is the same everywhere.
    if let Some(at) = pod_template(manifest)
        && let Some(change) = remove(&mut patch, at)
    {
        let pointer: String = at.iter().map(|field| format!("/{field}")).collect();
        if let Some(template) = merged.pointer_mut(&pointer) {
            strategic_merge(template, &change, template_schema())?;
        }
    }
    // Outside of it traits set no list.
    json_merge(&mut merged, &patch);
    *manifest = merged;
    Ok(())
}

fn template_schema() -> &'static Node {
    let template = schema::lookup("v1", "PodTemplate").and_then(|node| node.field("template"));
    template.and_then(|field| field.child).unwrap_or(&PLAIN)
}

/// Sorts traits by what they do.
fn order_key(one: &ValidTrait) -> String {
    let settings = one.settings.iter();
    let text = settings.map(|setting| format!("{}\u{0}{}\u{0}", setting.path, json!(setting.value)));
    std::iter::once(format!("{}\u{0}", one.type_))
        .chain(text)
        .collect()
}

impl FieldPath {
    fn segments(&self) -> &[Segment] {
        &self.0
    }
}

/// Writes a setting into a patch of `base`. Removing what is not there changes nothing.
fn insert(patch: &mut Value, base: Option<&Value>, path: &[Segment], setting: &Setting) {
    let (Some(Segment::Field(field)), Some(map)) = (path.first(), patch.as_object_mut()) else {
        return;
    };
    let base = base.and_then(|base| base.get(field));
    match path.get(1) {
        None => match (&setting.value, base) {
            (None, None) => {}
            (value, _) => {
                map.insert(field.clone(), json!(value));
            }
        },
        Some(Segment::Field(_)) => {
            let mut below = map.remove(field).unwrap_or_else(|| json!({}));
            insert(&mut below, base, path.get(1..).unwrap_or_default(), setting);
            if below.as_object().is_some_and(|below| !below.is_empty()) {
                map.insert(field.clone(), below);
            }
        }
        Some(Segment::Element(name)) => {
            let rest = path.get(2..).unwrap_or_default();
            element(map, base, field, name, rest, setting);
        }
    }
}

/// Writes a setting into the element of a list.
fn element(
    patch: &mut Map<String, Value>,
    base: Option<&Value>,
    field: &str,
    name: &str,
    rest: &[Segment],
    setting: &Setting,
) {
    let base = base
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let existing = base.iter().find(|element| name_of(element) == Some(name));
    if existing.is_none() && rest.is_empty() && setting.value.is_none() {
        return;
    }
    let order_field = format!("$setElementOrder/{field}");
    let mut order: Vec<Value> = match patch.remove(&order_field) {
        Some(Value::Array(order)) => order,
        _ => base.iter().filter_map(name_of).map(named).collect(),
    };
    if !order.iter().any(|element| name_of(element) == Some(name)) {
        order.push(named(name));
    }
    let mut list = match patch.remove(field) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    let rank = |of: Option<&str>| order.iter().position(|element| name_of(element) == of);
    let own = rank(Some(name));
    let place = list
        .iter()
        .position(|element| rank(name_of(element)) >= own)
        .unwrap_or(list.len());
    if list.get(place).and_then(name_of) != Some(name) {
        list.insert(place, named(name));
    }
    if let Some(element) = list.get_mut(place) {
        match (rest, &setting.value) {
            ([], Some(value)) => *element = replacement(name, value, existing),
            ([], None) => *element = json!({"name": name, "$patch": "delete"}),
            _ => insert(element, existing, rest, setting),
        }
    }
    patch.insert(field.to_owned(), Value::Array(list));
    patch.insert(order_field, Value::Array(order));
}

/// An element as a patch that leaves nothing of the one that was there.
fn replacement(name: &str, value: &Value, existing: Option<&Value>) -> Value {
    let mut element = Map::new();
    for field in existing
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(Map::keys)
    {
        element.insert(field.clone(), Value::Null);
    }
    element.extend(value.as_object().cloned().unwrap_or_default());
    element.insert("name".to_owned(), Value::from(name));
    Value::Object(element)
}

fn named(name: &str) -> Value {
    json!({ "name": name })
}

fn name_of(element: &Value) -> Option<&str> {
    element.get("name")?.as_str()
}

/// Takes the field at a path out of a patch.
fn remove(patch: &mut Value, path: &[&str]) -> Option<Value> {
    let (field, parents) = path.split_last()?;
    let parent = parents.iter().try_fold(patch, |at, field| at.get_mut(field))?;
    parent.as_object_mut()?.remove(*field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(type_: &'static str, settings: Vec<(FieldPath, Value)>) -> ValidTrait {
        let setting = |(path, value): (FieldPath, Value)| Setting {
            path,
            value: (!value.is_null()).then_some(value),
        };
        ValidTrait {
            type_,
            settings: settings.into_iter().map(setting).collect(),
            service: None,
        }
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {
            "replicas": 1, "template": {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [
                {"name": "web", "image": "x", "env": [
                    {"name": "Z", "value": "1"}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]},
                {"name": "aux", "image": "y"}]}}}})
    }

    fn containers() -> FieldPath {
        FieldPath::of(&["spec", "template", "spec", "containers"])
    }

    #[test]
    fn what_is_there_keeps_its_place_and_what_is_added_follows() {
        let env = |name: &str| containers().element("web").fields(&["env"]).element(name);
        let variable = |name: &str, value: &str| json!({"name": name, "value": value});
        let traits = [
            one(
                "sidecar",
                vec![(containers().element("log").fields(&["image"]), json!("l"))],
            ),
            one(
                "env",
                vec![
                    (env("A"), variable("A", "2")),
                    (env("B"), variable("B", "3")),
                    (env("Q"), Value::Null),
                    (env("Z"), Value::Null),
                ],
            ),
            one("scaler", vec![(FieldPath::of(&["spec", "replicas"]), json!(4))]),
            one(
                "labels",
                vec![
                    (
                        FieldPath::of(&["spec", "template", "metadata", "labels", "a"]),
                        Value::Null,
                    ),
                    (
                        FieldPath::of(&["spec", "template", "metadata", "labels", "b"]),
                        json!("2"),
                    ),
                    (FieldPath::of(&["metadata", "labels", "gone"]), Value::Null),
                ],
            ),
        ];
        let mut merged = deployment();
        merge_traits(&mut merged, &traits).unwrap();
        // A variable is replaced whole, and what is removed from where it is not leaves no empty map.
        assert_eq!(
            merged,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}, "spec": {
                "replicas": 4, "template": {"metadata": {"labels": {"b": "2"}}, "spec": {"containers": [
                    {"name": "web", "image": "x", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}]},
                    {"name": "aux", "image": "y"},
                    {"name": "log", "image": "l"}]}}}})
        );
    }

    #[test]
    fn elements_of_the_workload_may_be_named_in_any_order() {
        let image = |name: &str| (containers().element(name).fields(&["image"]), json!("new"));
        let mut merged = deployment();
        merge_traits(
            &mut merged,
            &[one("a", vec![image("aux"), image("web"), image("aux")])],
        )
        .unwrap();
        let images = merged.pointer("/spec/template/spec/containers").unwrap();
        let images: Vec<_> = images
            .as_array()
            .unwrap()
            .iter()
            .map(|c| (&c["name"], &c["image"]))
            .collect();
        assert_eq!(
            images,
            [(&json!("web"), &json!("new")), (&json!("aux"), &json!("new"))]
        );
    }

    #[test]
    fn a_kind_of_others_is_merged_like_a_built_in_one() {
        let mut game = deployment();
        game["apiVersion"] = json!("games.io/v1");
        game["kind"] = json!("Game");
        let log = (containers().element("log").fields(&["image"]), json!("l"));
        merge_traits(&mut game, &[one("sidecar", vec![log])]).unwrap();
        let containers = game.pointer("/spec/template/spec/containers").unwrap();
        assert_eq!(containers.as_array().map(Vec::len), Some(3));
    }

    #[test]
    fn a_manifest_that_is_not_as_its_kind_is_stays_as_it_was() {
        let mut bad = deployment();
        bad["spec"]["template"]["spec"]["containers"][1] = json!("aux");
        let before = bad.clone();
        let log = (containers().element("log").fields(&["image"]), json!("l"));
        let error = merge_traits(&mut bad, &[one("sidecar", vec![log])])
            .unwrap_err()
            .to_string();
        assert!(error.contains("containers"), "{error}");
        assert_eq!(bad, before);
    }
}
