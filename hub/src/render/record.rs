//! The record of a revision: component -> JSON, in the data of one or more ConfigMaps (seed: policies-and-workflow).

use super::{Rendered, RenderedComponent};
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
