//! What holds for any sequence of applies and updates.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;
use crate::managed::fields::fields_of_live;

const MANAGERS: [&str; 3] = ["a", "b", "c"];

/// A value of one of few, so that managers meet.
fn few() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["1", "2"]).prop_map(str::to_owned)
}

/// An object with some of a few fields.
fn map(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::collection::btree_map(prop::sample::select(names), few(), 0..=names.len())
        .prop_map(|map| json!(map))
}

fn container(name: &'static str) -> impl Strategy<Value = Value> {
    let port = prop::sample::subsequence(vec![80, 81], 0..=2);
    let env = prop::option::of(map(&["E", "F"]));
    (prop::option::of(few()), prop::option::of(few()), port, env).prop_map(move |(image, arg, ports, env)| {
        let mut out = json!({"name": name});
        if let Some(image) = image {
            out["image"] = image.into();
        }
        if let Some(arg) = arg {
            out["args"] = json!([arg]);
        }
        if !ports.is_empty() {
            out["ports"] = ports.iter().map(|port| json!({"containerPort": port})).collect();
        }
        if let Some(Value::Object(env)) = env.filter(|env| *env != json!({})) {
            let item = |(name, value): (&String, &Value)| json!({"name": name, "value": value});
            out["env"] = env.iter().map(item).collect();
        }
        out
    })
}

/// A Pod with some of the fields of each topology.
fn object() -> impl Strategy<Value = Value> {
    let containers = (
        prop::option::of(container("x")),
        prop::option::of(container("y")),
        prop::option::of(container("z")),
        any::<bool>(),
    );
    let containers = containers.prop_map(|(x, y, z, reverse)| {
        let mut list: Vec<Value> = [x, y, z].into_iter().flatten().collect();
        if reverse {
            list.reverse();
        }
        list
    });
    let finalizers = prop::sample::subsequence(vec!["f/1", "f/2", "f/3"], 0..=3);
    (
        containers,
        map(&["l", "m"]),
        map(&["n"]),
        finalizers,
        prop::option::of(few()),
    )
        .prop_map(|(containers, labels, selector, finalizers, host)| {
            let mut out = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
            let mut spec = Map::new();
            let mut put = |name: &str, value: Value| {
                if value != json!({}) && value != json!([]) {
                    spec.insert(name.to_owned(), value);
                }
            };
            put("containers", containers.into());
            put("nodeSelector", selector);
            put(
                "securityContext",
                host.map_or(json!({}), |user| json!({"runAsUser": user})),
            );
            if labels != json!({}) {
                out["metadata"]["labels"] = labels;
            }
            if !finalizers.is_empty() {
                out["metadata"]["finalizers"] = json!(finalizers);
            }
            if !spec.is_empty() {
                out["spec"] = spec.into();
            }
            out
        })
}

#[derive(Debug, Clone)]
enum Action {
    Apply(&'static str, Value, bool),
    Update(&'static str, Value),
}

fn action() -> impl Strategy<Value = Action> {
    let manager = || prop::sample::select(MANAGERS.as_slice());
    prop_oneof![
        3 => (manager(), object(), any::<bool>()).prop_map(|(m, o, force)| Action::Apply(m, o, force)),
        1 => (manager(), object()).prop_map(|(m, o)| Action::Update(m, o)),
    ]
}

/// What is at a path, by the steps of a set.
fn at<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match (step, value) {
        (Step::Field(name), Value::Object(fields)) => fields.get(&**name),
        (_, Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items
                .find(|(index, item)| step.leads_to(item, *index))
                .map(|(_, item)| item)
        }
        _ => None,
    })
}

/// The paths of a set with nothing of the set below them.
fn leaves(set: &FieldSet) -> Vec<Vec<Step>> {
    let paths = set.paths();
    let is_leaf = |path: &Vec<Step>| set.below(path).is_none_or(FieldSet::is_empty);
    paths.into_iter().filter(is_leaf).collect()
}

fn check_sets(object: &Object) -> Result<(), TestCaseError> {
    let written = write_entries(object.entries.clone());
    let mut again = read_entries(&written).unwrap();
    prop_assert_eq!(write_entries(again.clone()), written);
    for entry in &object.entries {
        let at = again.iter().position(|e| e.same_manager(entry)).unwrap();
        prop_assert_eq!(&again.swap_remove(at), entry);
    }
    // Everything in the object is somebody's, unless nobody is tracked: an object without managed fields stays so until
    // something is applied to it.
    if let Some(live) = object.live.as_ref().filter(|_| !object.entries.is_empty()) {
        let owned = object
            .entries
            .iter()
            .fold(FieldSet::default(), |all, e| all.union(e.fields.clone()));
        let have = fields_of_live(live, object.topology()).difference(&super::super::update::UNTRACKED);
        for path in leaves(&have) {
            prop_assert!(owned.has(&path), "{} is nobody's", print_path(&path));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_sequence(actions in prop::collection::vec(action(), 1..8)) {
        let mut object = Object::new("v1", "Pod");
        for action in actions {
            match action {
                Action::Update(manager, after) => {
                    object.update(manager, after);
                }
                Action::Apply(manager, config, force) => {
                    let before = object.clone();
                    match object.try_apply(manager, force, &config) {
                        Err(ApplyError::Conflicts(_)) => prop_assert!(!force),
                        Err(other) => prop_assert!(false, "{other}"),
                        Ok(()) => {}
                    }
                    if object.entries == before.entries && object.live == before.live {
                        continue;
                    }
                    // What was applied is there.
                    let live = object.live.clone().unwrap();
                    let mine = fields_of_live(&config, object.topology());
                    for path in leaves(&mine) {
                        let Some(wanted) = at(&config, &path).filter(|v| !v.is_array() || path.len() == 4) else { continue };
                        let have = at(&live, &path);
                        prop_assert!(have.is_some(), "{} was applied", print_path(&path));
                        if !wanted.is_object() {
                            prop_assert_eq!(have, Some(wanted), "{}", print_path(&path));
                        }
                    }
                    // What others applied is as it was, unless it was taken from them.
                    let others = before.entries.iter().filter(|e| e.operation == Operation::Apply && e.manager != manager);
                    for other in others.filter(|_| !force) {
                        for path in leaves(&other.fields) {
                            let had = before.live.as_ref().and_then(|live| at(live, &path));
                            if had.is_some_and(|had| !had.is_object()) {
                                prop_assert_eq!(at(&live, &path), had, "{}", print_path(&path));
                            }
                        }
                    }
                    // Once more changes nothing.
                    let once = object.clone();
                    object.try_apply(manager, force, &config).unwrap();
                    prop_assert_eq!(&object.live, &once.live);
                    prop_assert_eq!(write_entries(object.entries.clone()), write_entries(once.entries));
                }
            }
            check_sets(&object)?;
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[.fkvi]?:?\\PC{0,12}") {
        let set = json!({"f:a": {(text): {}}});
        if let Ok(set) = FieldSet::from_fields_v1(&set) {
            prop_assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()), Ok(set));
        }
    }
}
