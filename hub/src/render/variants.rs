//! What the clusters of a step get instead, where override policies change components (see `override` in the
//! application's policies).
//!
//! In the record of a revision a component that differs stands beside the application's own as `<component>.<step>`:
//! neither name contains a point.

use super::{Rendered, RenderedComponent, component_hash, render_components};
use roundhouse_api::{application::ValidApplication, hash};
use std::collections::BTreeMap;

/// Step -> everything as its clusters get it. Steps without overrides are not in it.
pub type Variants = BTreeMap<String, Rendered>;

/// Renders the steps whose components differ.
pub fn variants(namespace: &str, app: &str, application: &ValidApplication) -> Variants {
    let steps = application
        .placing()
        .filter_map(|(step, deploy)| Some((step.name.clone(), deploy.components.as_ref()?)));
    steps
        .map(|(step, components)| (step, render_components(namespace, app, components)))
        .collect()
}

/// All that a revision records: the components, then what differs from them.
pub fn with_variants(base: &Rendered, variants: &Variants) -> Rendered {
    let mut all = base.clone();
    for (step, rendered) in variants {
        let differs = |component: &&RenderedComponent| !base.components.contains(component);
        for component in rendered.components.iter().filter(differs) {
            all.components.push(RenderedComponent {
                name: format!("{}.{step}", component.name),
                manifests: component.manifests.clone(),
            });
        }
    }
    all
}

/// Parts what [`with_variants`] put together.
pub fn part_variants(all: Rendered) -> (Rendered, Variants) {
    let (components, differing): (Vec<_>, Vec<_>) =
        all.components.into_iter().partition(|c| !c.name.contains('.'));
    let base = Rendered {
        components,
        replica_paths: all.replica_paths,
    };
    let mut variants = Variants::new();
    for changed in differing {
        let Some((name, step)) = changed.name.split_once('.') else {
            continue;
        };
        let variant = variants.entry(step.to_owned()).or_insert_with(|| base.clone());
        if let Some(component) = variant.components.iter_mut().find(|c| c.name == name) {
            component.manifests.clone_from(&changed.manifests);
        }
    }
    (base, variants)
}

/// Component -> hash of its content, over what [`with_variants`] gives: a component has another content when any step has
/// another one of it.
pub fn component_hashes(all: &Rendered) -> BTreeMap<String, String> {
    let mut hashes: BTreeMap<String, String> = BTreeMap::new();
    for component in &all.components {
        let own = component_hash(component);
        match component.name.split_once('.') {
            None => {
                hashes.insert(component.name.clone(), own);
            }
            Some((name, step)) => {
                let hash = hashes.entry(name.to_owned()).or_default();
                *hash = hash::sha256(format!("{hash}\n{step}\n{own}").as_bytes());
            }
        }
    }
    hashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rendered(components: &[(&str, Value)]) -> Rendered {
        let component = |(name, manifest): &(&str, Value)| RenderedComponent {
            name: (*name).to_owned(),
            manifests: vec![manifest.clone()],
        };
        Rendered {
            components: components.iter().map(component).collect(),
            ..Rendered::default()
        }
    }

    #[test]
    fn variants_are_recorded_and_read_back() {
        let base = rendered(&[("a", json!({"x": 1})), ("b", json!({"x": 1}))]);
        let east = rendered(&[("a", json!({"x": 1})), ("b", json!({"x": 2}))]);
        let west = rendered(&[("a", json!({"x": 3})), ("b", json!({"x": 4}))]);
        let variants = Variants::from([("east".to_owned(), east), ("west".to_owned(), west)]);
        let all = with_variants(&base, &variants);
        let names: Vec<_> = all.components.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "b.east", "a.west", "b.west"]);
        assert_eq!(part_variants(all), (base.clone(), variants));
        // A step that changes nothing is nothing.
        let same = Variants::from([("s".to_owned(), base.clone())]);
        assert_eq!(
            part_variants(with_variants(&base, &same)),
            (base, Variants::new())
        );
    }

    #[test]
    fn another_override_is_another_content_of_its_component_only() {
        let base = rendered(&[("a", json!(1)), ("b", json!(1))]);
        let hashes = |b: u8| {
            let step = rendered(&[("a", json!(1)), ("b", json!(b))]);
            component_hashes(&with_variants(&base, &Variants::from([("s".to_owned(), step)])))
        };
        let (without, two, three) = (hashes(1), hashes(2), hashes(3));
        assert_eq!(without, component_hashes(&base));
        assert!(without["a"] == two["a"] && two["a"] == three["a"]);
        assert!(without["b"] != two["b"] && two["b"] != three["b"]);
    }
}
