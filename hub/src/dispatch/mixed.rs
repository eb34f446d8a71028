//! Clusters on which steps dispatch single components: which step gives which component, and of which revision.
//!
//! A component that the present run has not come to stays as the last run delivered it, in the same Bundle: otherwise its
//! agent would prune it in between.

use super::{
    Content, Divided, Refusal, Share,
    content::{Piece, divide},
    overrides::Applied,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What one step gives one cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Source {
    /// The step.
    pub step: String,
    /// The revision that it placed.
    pub revision: String,
    /// Whether the present run has reached it.
    pub reached: bool,
    /// The components; empty for all of them.
    pub components: Vec<String>,
    /// The step's overrides for this cluster.
    pub overrides: Vec<Arc<Applied>>,
}

/// What a cluster gets, component by component.
pub(super) enum Mix<'a> {
    /// These.
    Pieces(Vec<Piece<'a>>),
    /// It cannot be told before this revision is loaded.
    Needs(&'a str),
}

/// Puts together what a cluster gets: of a component the last step that was reached, or if none was, the last one.
pub(super) fn mix<'a>(
    share: &'a Share,
    present: &'a Content,
    former: &'a BTreeMap<String, Content>,
) -> Mix<'a> {
    let content = |source: &Source| match source.revision == present.revision || source.reached {
        true => Some(present),
        false => former.get(&source.revision),
    };
    let mut won: BTreeMap<&str, (&Source, &Content)> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    let (reached, others): (Vec<&Source>, Vec<&Source>) =
        share.sources.iter().partition(|source| source.reached);
    // A step of the present run that gives everything leaves nothing to earlier ones.
    let whole = reached.iter().any(|source| source.components.is_empty());
    let others = if whole { Vec::new() } else { others };
    for source in reached.into_iter().chain(others) {
        if !source.components.is_empty()
            && source
                .components
                .iter()
                .all(|name| is_covered(&won, name, source))
        {
            continue;
        }
        let Some(content) = content(source) else {
            return Mix::Needs(&source.revision);
        };
        for component in &content.rendered.components {
            let name = component.name.as_str();
            let gives = source.components.is_empty() || source.components.iter().any(|given| given == name);
            if gives && !is_covered(&won, name, source) && won.insert(name, (source, content)).is_none() {
                order.push(name);
            }
        }
    }
    // In the order of the application, and what it has no longer behind that.
    let place = |name: &str| {
        let components = &present.rendered.components;
        components
            .iter()
            .position(|component| component.name == name)
            .unwrap_or(usize::MAX)
    };
    order.sort_by_key(|name| place(name));
    let pieces = order.into_iter().filter_map(|component| {
        let (source, content) = won.get(component)?;
        Some(Piece {
            content,
            component,
            step: &source.step,
            overrides: &source.overrides,
        })
    });
    Mix::Pieces(pieces.collect())
}

/// Whether a step that was reached gives a component, and `source` was not.
fn is_covered(won: &BTreeMap<&str, (&Source, &Content)>, component: &str, source: &Source) -> bool {
    won.get(component)
        .is_some_and(|(by, _)| by.reached && !source.reached)
}

/// Revision, component, step and overrides of each piece, and the replicas.
type Key = (Vec<(String, String, String, Vec<String>)>, String);

/// Divides what was put together; clusters that get the same share the work.
#[derive(Debug, Default)]
pub(super) struct Mixer {
    done: HashMap<Key, Result<Arc<Divided>, Refusal>>,
}

impl Mixer {
    pub(super) fn divide(&mut self, pieces: &[Piece<'_>], share: &Share) -> Result<Arc<Divided>, Refusal> {
        let key_of = |piece: &Piece<'_>| {
            let overrides = piece.overrides.iter().map(|applied| applied.hash.clone());
            (
                piece.content.revision.clone(),
                piece.component.to_owned(),
                piece.step.to_owned(),
                overrides.collect(),
            )
        };
        let key = (
            pieces.iter().map(key_of).collect(),
            format!("{:?}", share.replicas),
        );
        let divided = self.done.entry(key);
        divided
            .or_insert_with(|| divide(pieces, &share.replicas).map(Arc::new))
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Rendered, RenderedComponent};
    use serde_json::json;

    fn content(revision: &str, components: &[&str]) -> Content {
        let component = |name: &&str| RenderedComponent {
            name: (*name).to_owned(),
            manifests: vec![
                json!({"kind": "ConfigMap", "metadata": {"name": name}, "data": {"of": revision}}),
            ],
        };
        Content {
            namespace: "default".to_owned(),
            application: "app".to_owned(),
            revision: revision.to_owned(),
            generation: 1,
            components: BTreeMap::new(),
            rendered: Rendered {
                components: components.iter().map(component).collect(),
                ..Rendered::default()
            },
            variants: BTreeMap::new(),
        }
    }

    /// Steps with revision, whether they are reached, and their components; what comes of it.
    fn check(sources: &[(&str, bool, &[&str])], expected: &str) {
        let present = content("v2", &["db", "web", "new"]);
        let former = BTreeMap::from([("v1".to_owned(), content("v1", &["old", "db", "web"]))]);
        let share = Share {
            sources: sources
                .iter()
                .enumerate()
                .map(|(n, (revision, reached, components))| Source {
                    step: format!("s{n}"),
                    revision: (*revision).to_owned(),
                    reached: *reached,
                    components: components.iter().map(|c| (*c).to_owned()).collect(),
                    overrides: Vec::new(),
                })
                .collect(),
            ..Share::default()
        };
        let shown = match mix(&share, &present, &former) {
            Mix::Needs(revision) => format!("needs {revision}"),
            Mix::Pieces(pieces) => {
                let piece = |p: &Piece<'_>| format!("{}@{}/{}", p.component, p.content.revision, p.step);
                pieces.iter().map(piece).collect::<Vec<_>>().join(" ")
            }
        };
        assert_eq!(shown, expected, "{sources:?}");
    }

    #[test]
    fn each_component_is_of_the_last_step_that_gives_it() {
        check(&[("v2", true, &["db"])], "db@v2/s0");
        check(
            &[("v2", true, &["web"]), ("v2", true, &["db"])],
            "db@v2/s1 web@v2/s0",
        );
        check(
            &[("v2", true, &["db"]), ("v2", true, &[])],
            "db@v2/s1 web@v2/s1 new@v2/s1",
        );
        check(
            &[("v2", true, &[]), ("v2", true, &["db"])],
            "db@v2/s1 web@v2/s0 new@v2/s0",
        );
    }

    #[test]
    fn what_the_run_has_not_come_to_stays_as_it_was() {
        check(
            &[("v2", true, &["db"]), ("v1", false, &["web"])],
            "db@v2/s0 web@v1/s1",
        );
        check(
            &[("v2", true, &["db"]), ("v1", false, &[])],
            "db@v2/s0 web@v1/s1 old@v1/s1",
        );
        check(&[("v2", true, &["db"]), ("v1", false, &["db"])], "db@v2/s0");
        check(
            &[("v2", true, &[]), ("v1", false, &["old"])],
            "db@v2/s0 web@v2/s0 new@v2/s0",
        );
        // The same run, from a later step on.
        check(
            &[("v2", true, &["db"]), ("v2", false, &["web"])],
            "db@v2/s0 web@v2/s1",
        );
        check(
            &[("v1", false, &["db"]), ("v1", false, &["web"])],
            "db@v1/s0 web@v1/s1",
        );
    }

    #[test]
    fn a_revision_that_is_needed_is_asked_for() {
        check(&[("v2", true, &["db"]), ("v0", false, &["web"])], "needs v0");
        check(
            &[("v2", true, &["db", "web"]), ("v0", false, &["web"])],
            "db@v2/s0 web@v2/s0",
        );
    }
}
