//! What Kubernetes 1.36 computed for 1,200 recorded cases is what we compute.

use crate::keys::unique_keys;
use crate::recorded::{Case, cases};
use roundhouse_patch::{
    PatchType, json_merge, schema, strategic_merge, three_way_merge, three_way_merge_bytes,
};
use serde_json::Value;

fn node(case: &Case) -> Option<&'static schema::Node> {
    let text = |field: &str| case.desired[field].as_str().unwrap_or_default();
    schema::lookup(text("apiVersion"), text("kind"))
}

/// The recorded result without what Kubernetes' library leaves in list elements that it adds whole.
pub(crate) fn without_leftovers(value: &Value, in_list: bool) -> Value {
    match value {
        Value::Object(fields) => {
            let leftover = |name: &str, value: &Value| {
                in_list && (value.is_null() || name.starts_with('$') || value.get("$patch").is_some())
            };
            let kept = fields.iter().filter(|(name, value)| !leftover(name, value));
            kept.map(|(name, value)| (name.clone(), without_leftovers(value, in_list)))
                .collect()
        }
        Value::Array(items) => {
            let kept = items.iter().filter(|item| item.get("$patch").is_none());
            kept.map(|item| without_leftovers(item, true)).collect()
        }
        scalar => scalar.clone(),
    }
}

#[test]
fn every_recorded_result_and_patch() {
    let mut with_leftovers = Vec::new();
    let cases = cases();
    assert_eq!(cases.len(), 1200);
    for case in &cases {
        let merged = three_way_merge(case.last_applied.as_ref(), &case.desired, &case.live).unwrap();
        let strategy = if merged.patch_type == PatchType::Strategic {
            "strategic"
        } else {
            "merge"
        };
        assert_eq!(strategy, case.strategy, "{}", case.id);
        if merged.result != case.result {
            assert_eq!(
                merged.result,
                without_leftovers(&case.result, false),
                "{}",
                case.id
            );
            with_leftovers.push(case.id.as_str());
        }
        // Kubernetes also sends patches that change nothing, we send none.
        let nothing_to_do = merged.is_empty() && case.result == case.live;
        assert!(
            merged.patch == case.patch || nothing_to_do,
            "{}: {} is not {}",
            case.id,
            merged.patch,
            case.patch
        );
    }
    assert_eq!(
        with_leftovers,
        ["statefulset-7-00378", "daemonset-7-00522", "deployment-7-00569"]
    );
}

#[test]
fn the_patch_is_empty_exactly_where_nothing_changes() {
    let mut empty = 0;
    for case in cases() {
        let merged = three_way_merge(case.last_applied.as_ref(), &case.desired, &case.live).unwrap();
        assert_eq!(merged.is_empty(), merged.result == case.live, "{}", case.id);
        empty += usize::from(merged.is_empty());
    }
    assert_eq!(empty, 10);
}

#[test]
fn a_second_pass_changes_nothing() {
    let mut checked = 0;
    for case in cases() {
        let first = three_way_merge(case.last_applied.as_ref(), &case.desired, &case.live).unwrap();
        let documents = [&case.desired, &case.live];
        if node(&case).is_some_and(|node| !documents.iter().all(|document| unique_keys(document, node))) {
            continue;
        }
        checked += 1;
        let second = three_way_merge(Some(&case.desired), &case.desired, &first.result).unwrap();
        assert_eq!(second.result, first.result, "{}", case.id);
        assert!(second.is_empty(), "{}: {}", case.id, second.patch);
    }
    println!("{checked} cases have unique merge keys");
    assert!(checked > 1100);
}

#[test]
fn a_server_that_applies_the_recorded_patch_gets_the_recorded_result() {
    for case in cases() {
        let mut object = case.live.clone();
        match node(&case) {
            Some(node) => strategic_merge(&mut object, &case.patch, node).unwrap(),
            None => json_merge(&mut object, &case.patch),
        }
        assert!(
            object == case.result || object == without_leftovers(&case.result, false),
            "{}: {object}\nis not {}",
            case.id,
            case.result
        );
    }
}

#[test]
fn bytes_give_what_values_give() {
    for case in cases() {
        let last = case.last_applied.as_ref().map(Value::to_string);
        let bytes = three_way_merge_bytes(
            last.as_ref().map(String::as_bytes),
            case.desired.to_string().as_bytes(),
            case.live.to_string().as_bytes(),
        );
        let bytes = bytes.unwrap();
        let values = three_way_merge(case.last_applied.as_ref(), &case.desired, &case.live).unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&bytes.patch).unwrap(),
            values.patch
        );
        assert_eq!(
            serde_json::from_slice::<Value>(&bytes.result).unwrap(),
            values.result
        );
        assert_eq!(bytes.patch_type, values.patch_type);
    }
}
