//! Retain: whether a patch would only take away what nobody rendered; pure.
//!
//! kubectl's algorithm sends `$retainKeys` for a Deployment's `strategy` and for every volume whenever the live one has
//! a field more. The member fills that field in by itself (`strategy.rollingUpdate`, `emptyDir`), so that the same patch
//! would be sent in every pass and never change anything. Fields that we never rendered stay; a field that the manifest
//! gave up is deleted by name in the same patch, and a new one is set by it.

use roundhouse_patch::schema::Node;
use roundhouse_patch::strategic_merge;
use serde_json::Value;

const RETAIN_KEYS: &str = "$retainKeys";

/// Whether a strategic merge patch, without its `$retainKeys`, leaves the live object as it is.
pub(crate) fn only_retains(patch: &Value, live: &Value, schema: &'static Node) -> bool {
    if !retains(patch) {
        return false;
    }
    let (mut stripped, mut merged) = (patch.clone(), live.clone());
    strip(&mut stripped);
    strategic_merge(&mut merged, &stripped, schema).is_ok() && merged == *live
}

fn retains(patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name == RETAIN_KEYS || retains(value)),
        Value::Array(items) => items.iter().any(retains),
        _ => false,
    }
}

fn strip(patch: &mut Value) {
    match patch {
        Value::Object(fields) => {
            fields.remove(RETAIN_KEYS);
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_patch::{schema, three_way_merge};
    use serde_json::json;

    fn deployment(strategy: &Value, volumes: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"strategy": strategy, "template": {"spec": {"volumes": volumes}}}})
    }

    #[test]
    fn what_the_member_filled_in_is_nothing_to_send_and_what_was_given_up_is() {
        let rolling = json!({"type": "RollingUpdate"});
        let filled = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}});
        let (bare, empty) = (json!([{"name": "v"}]), json!([{"name": "v", "emptyDir": {}}]));
        let config = json!([{"name": "v", "configMap": {"name": "c"}}]);
        let none = json!([]);
        for (last, desired, live, expected) in [
            ((&rolling, &none), (&rolling, &none), (&filled, &none), true),
            ((&rolling, &bare), (&rolling, &bare), (&filled, &empty), true),
            // The manifest gave it up.
            ((&filled, &none), (&rolling, &none), (&filled, &none), false),
            ((&rolling, &config), (&rolling, &bare), (&filled, &config), false),
            // Another type.
            (
                (&rolling, &none),
                (&json!({"type": "Recreate"}), &none),
                (&filled, &none),
                false,
            ),
            // Changed by hand.
            (
                (&rolling, &none),
                (&rolling, &none),
                (&json!({"type": "Recreate", "x": 1}), &none),
                false,
            ),
        ] {
            let of = |(strategy, volumes): (&Value, &Value)| deployment(strategy, volumes);
            let (last, desired, live) = (of(last), of(desired), of(live));
            let merged = three_way_merge(Some(&last), &desired, &live).unwrap();
            assert!(!merged.is_empty(), "kubectl sends a patch: {live}");
            let schema = schema::lookup("apps/v1", "Deployment").unwrap();
            assert_eq!(
                only_retains(&merged.patch, &live, schema),
                expected,
                "{}",
                merged.patch
            );
        }
    }
}
