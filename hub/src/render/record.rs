//! The record of a revision: component -> JSON, in the data of one or more ConfigMaps (seed: policies-and-workflow).

use super::{Rendered, RenderedComponent, metadata};
use serde_json::Value;
use std::collections::BTreeMap;

/// Data of one part weighs at most this much, keys and values in bytes; a ConfigMap may hold twice that.
pub const MAX_PART_BYTES: usize = 512 * 1024;

/// Why a record does not read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A component is not in the record.
    #[error(
        "component {component:?} is not in the recorded resources: a ConfigMap of the revision is missing or was changed"
    )]
    Missing {
        /// The component.
        component: String,
    },
    /// A component's JSON does not read.
    #[error(
        "the recorded resources of component {component:?} do not read ({source}): a ConfigMap of the revision is missing or was changed"
    )]
    Malformed {
        /// The component.
        component: String,
        /// What the parser says.
        source: serde_json::Error,
    },
}

/// Parts the components that contain Secrets from the others: their record belongs into Secrets, not ConfigMaps. Read
/// together, the parts of both give the whole back.
pub fn split_secrets(rendered: Rendered) -> (Rendered, Rendered) {
    let is_secret = |manifest: &Value| metadata::group_kind(manifest) == Some(("", "Secret"));
    let holds_secret = |component: &RenderedComponent| component.manifests.iter().any(is_secret);
    let (secret, open) = rendered.components.into_iter().partition(holds_secret);
    let part = |components| Rendered {
        components,
        replica_paths: rendered.replica_paths.clone(),
    };
    (part(open), part(secret))
}

/// Writes what an application renders to as the data of one or more ConfigMaps, in order: `<revision>`, `<revision>-2`, …
///
/// A component with one object is that object, with several a list, as in the seed. A component that does not fit into
/// the present part goes on in the next ones under the same key: joining the pieces in order gives its JSON.
pub fn to_config_map_data(rendered: &Rendered) -> Vec<BTreeMap<String, String>> {
    let mut parts = vec![BTreeMap::new()];
    let mut used = 0;
    for component in &rendered.components {
        let json = to_json(component);
        let mut rest = json.as_str();
        let fits_alone = rest.len() + component.name.len() <= MAX_PART_BYTES;
        while !rest.is_empty() {
            let room = MAX_PART_BYTES.saturating_sub(used + component.name.len());
            if used > 0 && (room == 0 || (fits_alone && rest.len() > room)) {
                parts.push(BTreeMap::new());
                used = 0;
                continue;
            }
            // At least one character, however long the key is.
            let (piece, remaining) = rest.split_at(rest.floor_char_boundary(room.max(4)));
            if let Some(part) = parts.last_mut() {
                part.insert(component.name.clone(), piece.to_owned());
            }
            used += component.name.len() + piece.len();
            rest = remaining;
        }
    }
    parts
}

/// Reads what [`to_config_map_data`] wrote: `components` names the application's components in order, `parts` are the
/// data of its ConfigMaps in order.
///
/// # Errors
/// [`RecordError`] names the component.
pub fn from_config_map_data<'a>(
    components: impl IntoIterator<Item = &'a str>,
    parts: &[BTreeMap<String, String>],
) -> Result<Rendered, RecordError> {
    let read = |name: &str| {
        let component = name.to_owned();
        let json: String = parts
            .iter()
            .filter_map(|part| part.get(name))
            .map(String::as_str)
            .collect();
        if json.is_empty() {
            return Err(RecordError::Missing { component });
        }
        match serde_json::from_str(&json) {
            Ok(Value::Array(manifests)) => Ok(RenderedComponent {
                name: component,
                manifests,
            }),
            Ok(manifest) => Ok(RenderedComponent {
                name: component,
                manifests: vec![manifest],
            }),
            Err(source) => Err(RecordError::Malformed { component, source }),
        }
    };
    let components: Result<_, _> = components.into_iter().map(read).collect();
    Ok(Rendered {
        components: components?,
        ..Rendered::default()
    })
}

fn to_json(component: &RenderedComponent) -> String {
    // Only an object stands for itself: a malformed manifest may be a list.
    let json = match component.manifests.as_slice() {
        [manifest] if manifest.is_object() => serde_json::to_string_pretty(manifest),
        manifests => serde_json::to_string_pretty(manifests),
    };
    // Writing a `Value` to memory has no failing path.
    json.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn rendered(components: &[(&str, Value)]) -> Rendered {
        let component = |(name, manifests): &(&str, Value)| RenderedComponent {
            name: (*name).to_owned(),
            manifests: manifests.as_array().unwrap().clone(),
        };
        Rendered {
            components: components.iter().map(component).collect(),
            ..Rendered::default()
        }
    }

    /// Writes and reads back; returns the size of each part.
    fn round_trip(rendered: &Rendered) -> Vec<usize> {
        let parts = to_config_map_data(rendered);
        let names = rendered.components.iter().map(|c| c.name.as_str());
        assert_eq!(&from_config_map_data(names, &parts).unwrap(), rendered);
        parts
            .iter()
            .map(|part| part.iter().map(|(k, v)| k.len() + v.len()).sum())
            .collect()
    }

    #[test]
    fn the_seeds_form() {
        let data = to_config_map_data(&rendered(&[
            ("mysvc", json!([{"kind": "Deployment"}])),
            ("a", json!([{}, {"b": 1}])),
        ]));
        assert_eq!(data.len(), 1);
        assert_eq!(data[0]["mysvc"], "{\n  \"kind\": \"Deployment\"\n}");
        assert_eq!(
            serde_json::from_str::<Value>(&data[0]["a"]).unwrap(),
            json!([{}, {"b": 1}])
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        // Components in another order than their names, malformed manifests, and none.
        let odd = rendered(&[
            ("z", json!([{"a": 1}])),
            ("a", json!([[1, 2]])),
            ("m", json!([null])),
            ("e", json!([])),
            ("t", json!([{"a": "é"}, 7])),
        ]);
        assert_eq!(round_trip(&odd).len(), 1);
        assert_eq!(to_config_map_data(&Rendered::default()), [BTreeMap::new()]);
    }

    #[test]
    fn components_with_secrets_are_parted() {
        let all = rendered(&[
            (
                "b",
                json!([{"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "Secret"}]),
            ),
            (
                "a",
                json!([{"apiVersion": "example.com/v1", "kind": "Secret"}, null]),
            ),
        ]);
        let (open, secret) = split_secrets(all.clone());
        assert_eq!(
            (&open.components[..], &secret.components[..]),
            (&all.components[1..], &all.components[..1])
        );
        let parts = [to_config_map_data(&open), to_config_map_data(&secret)].concat();
        assert_eq!(from_config_map_data(["b", "a"], &parts).unwrap(), all);
    }

    #[test]
    fn large_records_are_split() {
        let text = |bytes: usize| json!([{"text": "x".repeat(bytes)}]);
        let third = MAX_PART_BYTES / 3;
        // Three thirds do not fit with their keys: the last one moves on whole.
        let sizes = round_trip(&rendered(&[
            ("a", text(third)),
            ("b", text(third)),
            ("c", text(third)),
        ]));
        assert_eq!(sizes.len(), 2);
        assert!(sizes[1] > third && sizes[1] < third + 100, "{sizes:?}");
        // A component that fits nowhere goes on from part to part, around characters of several bytes.
        let wide = rendered(&[
            ("a", text(10)),
            ("b", json!([{"text": "é".repeat(MAX_PART_BYTES)}])),
            ("c", text(10)),
        ]);
        let sizes = round_trip(&wide);
        assert_eq!(sizes.len(), 3);
        assert!(sizes.iter().all(|size| *size <= MAX_PART_BYTES), "{sizes:?}");
    }

    #[test]
    fn a_damaged_record_is_named() {
        let rendered = rendered(&[
            ("a", json!([{"text": "x".repeat(2 * MAX_PART_BYTES)}])),
            ("b", json!([{}])),
        ]);
        let parts = to_config_map_data(&rendered);
        let error = from_config_map_data(["a", "b"], &parts[..1])
            .unwrap_err()
            .to_string();
        assert!(error.contains("component \"a\" do not read"), "{error}");
        let error = from_config_map_data(["c"], &parts).unwrap_err().to_string();
        assert!(
            error.contains("component \"c\" is not in the recorded resources"),
            "{error}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_sizes_read_back_and_fit(sizes in prop::collection::vec(0..(2 * MAX_PART_BYTES), 0..6)) {
            let names: Vec<String> = (0..sizes.len()).map(|i| format!("c{i}")).collect();
            let components: Vec<(&str, Value)> = names.iter().zip(&sizes)
                .map(|(name, size)| (name.as_str(), json!([{"t": "ü".repeat(size / 2)}])))
                .collect();
            let parts = round_trip(&rendered(&components));
            prop_assert!(parts.iter().all(|size| *size <= MAX_PART_BYTES), "{:?}", parts);
            let whole: usize = parts.iter().sum();
            prop_assert!(parts.len() <= 1 + 2 * whole / MAX_PART_BYTES, "{:?}", parts);
        }
    }
}
