//! From what placing steps say to one placement for each: parts are put together, and references to Placements are
//! resolved; pure.
//!
//! What holds over all placing steps (one remainder, percentages of at most 100 in all: placement design, rule 2) can
//! be told only when every reference is resolved, so it is checked here, once for `validate()` and once for [`resolve`].

use super::{
    DeployStep, PlacementPart, PlacementSource, StepKind, ValidApplication, ValidStep, validate::Violation,
};
use crate::placement::{Override, PlacementSpec, ReplicaShare};
use serde_json::Value;
use std::collections::BTreeSet;

/// What is known of a Placement that a step refers to.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// There is none of that name.
    Missing,
    /// There is one, and it is refused.
    Refused(&'a [Violation]),
    /// This is what it says.
    Valid(&'a PlacementSpec),
}

/// Why the placing steps of an application cannot be placed as they stand. Nothing is wrong with its spec alone: what
/// runs stays, and the steps wait.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// A Placement is missing.
    #[error(
        "{path}: there is no Placement {name:?} in the application's namespace: create it, or name another one; nothing is placed anew until then"
    )]
    Missing {
        /// Path of the field that refers to it.
        path: String,
        /// Its name.
        name: String,
    },
    /// A Placement is refused.
    #[error(
        "{path}: Placement {name:?} is not accepted ({violation}): correct it; nothing is placed anew until then"
    )]
    NotAccepted {
        /// Path of the field that refers to it.
        path: String,
        /// Its name.
        name: String,
        /// The first thing that is wrong with it.
        violation: String,
    },
    /// The placements do not go together.
    #[error("{0}; nothing is placed anew until then")]
    Conflict(Violation),
}

impl Unresolved {
    /// All that [`Self::reason`] may be.
    pub const REASONS: [&str; 3] = ["PlacementMissing", "PlacementNotAccepted", "PlacementsConflict"];

    /// The reason of a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Unresolved::Missing { .. } => "PlacementMissing",
            Unresolved::NotAccepted { .. } => "PlacementNotAccepted",
            Unresolved::Conflict(_) => "PlacementsConflict",
        }
    }
}

/// Puts the Placements that placing steps refer to in, and checks what has to hold over all steps together. An
/// application without references is left as it is.
///
/// # Errors
/// [`Unresolved`] names the first reference that cannot be used, or what does not go together; then placements that
/// refer to something lack it.
pub fn resolve<'p>(
    application: &mut ValidApplication,
    find: impl Fn(&str) -> Found<'p>,
) -> Result<(), Unresolved> {
    if !application
        .placing()
        .any(|(_, deploy)| deploy.references().next().is_some())
    {
        return Ok(());
    }
    for deploy in deploy_steps(&mut application.steps) {
        let mut parts = Vec::new();
        for part in &deploy.parts {
            parts.push(match &part.source {
                PlacementSource::Inline(spec) => (part, spec, true),
                PlacementSource::Topology(spec) => (part, spec, false),
                PlacementSource::Reference(name) => (part, found(part, name, find(name))?, true),
            });
        }
        let combined = combine(&parts);
        if let Some((index, reason)) = combined.problems.into_iter().next() {
            let path = index.and_then(|index| deploy.parts.get(index));
            let path = path.map_or_else(|| deploy.path.clone(), |part| part.path.clone());
            return Err(Unresolved::Conflict(Violation { path, reason }));
        }
        deploy.placement = combined.spec;
    }
    let steps: Vec<(&str, &DeployStep)> = application
        .placing()
        .map(|(step, deploy)| (step.name.as_str(), deploy))
        .collect();
    let placing: Vec<_> = steps
        .iter()
        .map(|(name, d)| (*name, &d.placement, d.only.as_deref()))
        .collect();
    let Some(problem) = together(&placing).into_iter().next() else {
        return Ok(());
    };
    let path = match &problem {
        Together::Remainder { step, .. } => {
            let deploy = steps.get(*step).map(|(_, deploy)| deploy);
            format!("{}.remainder", deploy.map_or("spec", |d| &d.path))
        }
        Together::Twice { step, .. } => steps
            .get(*step)
            .map_or_else(|| "spec".to_owned(), |(_, deploy)| deploy.path.clone()),
        // The list of the steps, or of the policies that stand in for them.
        Together::Percent { .. } => {
            let first = steps.first().map_or("spec", |(_, deploy)| &deploy.path);
            first.split('[').next().unwrap_or(first).to_owned()
        }
    };
    let reason = problem.into_reason();
    Err(Unresolved::Conflict(Violation { path, reason }))
}

fn found<'p>(part: &PlacementPart, name: &str, found: Found<'p>) -> Result<&'p PlacementSpec, Unresolved> {
    let (path, name) = (part.path.clone(), name.to_owned());
    match found {
        Found::Valid(spec) => Ok(spec),
        Found::Missing => Err(Unresolved::Missing { path, name }),
        Found::Refused(violations) => Err(Unresolved::NotAccepted {
            path,
            name,
            violation: violations.first().map(ToString::to_string).unwrap_or_default(),
        }),
    }
}

fn deploy_steps(steps: &mut [ValidStep]) -> Vec<&mut DeployStep> {
    let mut found = Vec::new();
    for step in steps {
        match &mut step.kind {
            StepKind::Deploy(deploy) => found.push(deploy.as_mut()),
            StepKind::Group(group) => found.extend(deploy_steps(&mut group.steps)),
            _ => {}
        }
    }
    found
}

/// The Placements that an application's spec names, whether or not the rest of it can be understood: it is looked at when
/// one of them changes.
pub fn references(spec: &Value) -> BTreeSet<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let steps = list(spec.pointer("/workflow/steps"));
    let inner = steps.iter().flat_map(|step| list(step.get("subSteps")));
    let policies = list(spec.get("policies"));
    let entries: Vec<Value> = inner.chain(policies).chain(steps.iter().cloned()).collect();
    let named = |entry: &Value| {
        let reference = entry.pointer("/properties/placementRef")?;
        let name = reference.get("name").unwrap_or(reference);
        name.as_str().map(str::to_owned)
    };
    entries.iter().filter_map(named).collect()
}

/// Parts put together.
#[derive(Debug, Default)]
pub(crate) struct Combined {
    /// The rules of all parts in order, with what else the first whole placement says.
    pub(crate) spec: PlacementSpec,
    /// What does not go together: the part (or the whole list), and why.
    pub(crate) problems: Vec<(Option<usize>, String)>,
}

/// Puts parts together: the part, what it says, and whether it says more than rules.
pub(crate) fn combine(parts: &[(&PlacementPart, &PlacementSpec, bool)]) -> Combined {
    let mut combined = Combined::default();
    let mut first: Option<&PlacementPart> = None;
    for (index, (part, spec, whole)) in parts.iter().enumerate() {
        let rules = std::mem::take(&mut combined.spec.placement);
        let mut overrides = std::mem::take(&mut combined.spec.overrides);
        overrides.extend(
            spec.overrides
                .iter()
                .cloned()
                .map(|o| shifted(o, spec, rules.len())),
        );
        match (whole, first) {
            (true, None) => {
                first = Some(part);
                combined.spec = PlacementSpec::clone(spec);
            }
            (true, Some(first)) => {
                for field in differences(&combined.spec, spec) {
                    let reason = format!(
                        "policies {:?} and {:?} differ in {field}: within one step they have to agree",
                        first.policy.as_deref().unwrap_or_default(),
                        part.policy.as_deref().unwrap_or_default()
                    );
                    combined.problems.push((Some(index), reason));
                }
            }
            (false, _) => {}
        }
        combined.spec.overrides = overrides;
        combined.spec.placement = rules;
        combined.spec.placement.extend(spec.placement.iter().cloned());
    }
    // Within one part the names are checked where it is read.
    let rules = match parts {
        [_] => &[][..],
        _ => &combined.spec.placement,
    };
    let mut names = BTreeSet::new();
    for (index, rule) in rules.iter().enumerate() {
        let name = rule.name_or_index(index);
        if !names.insert(name.clone()) {
            let reason =
                format!("rule name {name:?} is used twice by these policies: give each rule its own name");
            combined.problems.push((None, reason));
        }
    }
    combined
}

/// An override of a part whose rules come after `before` others: a rule without a name has another default name there.
fn shifted(mut change: Override, part: &PlacementSpec, before: usize) -> Override {
    if let Some(named) = &mut change.rule {
        let mut rules = part.placement.iter().enumerate();
        if let Some((index, rule)) = rules.find(|(index, rule)| rule.name_or_index(*index) == *named) {
            *named = rule.name_or_index(before + index);
        }
    }
    change
}

fn differences(a: &PlacementSpec, b: &PlacementSpec) -> Vec<&'static str> {
    let differs = [
        ("remainder", a.remainder != b.remainder),
        ("rebalance", a.rebalance != b.rebalance),
        ("tolerations", a.tolerations != b.tolerations),
        ("maxClusters", a.max_clusters != b.max_clusters),
        ("spread", a.spread != b.spread),
    ];
    differs
        .iter()
        .filter(|(_, differs)| *differs)
        .map(|(field, _)| *field)
        .collect()
}

/// Something that does not hold over all placing steps.
#[derive(Debug)]
pub(crate) enum Together {
    /// A step whose remainder is another one than the first's.
    Remainder {
        /// Which of the steps.
        step: usize,
        /// Why it is refused.
        reason: String,
    },
    /// A step that divides a component which another one divides with all others.
    Twice {
        /// Which of the steps.
        step: usize,
        /// Why it is refused.
        reason: String,
    },
    /// The percentages are above 100 in sum.
    Percent {
        /// Why it is refused.
        reason: String,
    },
}

impl Together {
    /// Why it is refused.
    pub(crate) fn into_reason(self) -> String {
        match self {
            Together::Remainder { reason, .. }
            | Together::Twice { reason, .. }
            | Together::Percent { reason } => reason,
        }
    }
}

/// A placing step: its name, what it says, and the only component that it dispatches.
pub(crate) type PlacingStep<'a> = (&'a str, &'a PlacementSpec, Option<&'a str>);

/// What does not hold over all placing steps. Steps that give every cluster the full count leave no remainder; steps that
/// dispatch different components divide different replicas.
pub(crate) fn together(placing: &[PlacingStep<'_>]) -> Vec<Together> {
    let mut problems = Vec::new();
    let divides = |spec: &PlacementSpec| spec.placement.iter().any(|rule| rule.replicas.is_some());
    let dividing: Vec<_> = placing
        .iter()
        .enumerate()
        .filter(|(_, (_, spec, _))| divides(spec))
        .collect();
    let whole = dividing.iter().find(|(_, (_, _, only))| only.is_none());
    if let Some((_, (name, ..))) = whole {
        let twice = dividing
            .iter()
            .filter_map(|(step, (_, _, only))| Some((*step, (*only)?)));
        problems.extend(twice.map(|(step, component)| Together::Twice {
            step,
            reason: format!(
                "component {component:?} is divided by step {name:?} already, which places every component: leave replicas out of the rules of one of them"
            ),
        }));
    }
    let components: BTreeSet<Option<&str>> = dividing.iter().map(|(_, (_, _, only))| *only).collect();
    for component in components {
        let mut own = dividing.iter().filter(|(_, (_, _, only))| *only == component);
        let Some((_, (name, first, _))) = own.next() else {
            continue;
        };
        for (step, (_, other, _)) in own {
            let (mine, theirs) = (other.remainder, first.remainder);
            if mine != theirs {
                problems.push(Together::Remainder {
                    step: *step,
                    reason: format!(
                        "{mine:?} here but {theirs:?} in {name:?}: all placing steps share one remainder, so write the same in each"
                    ),
                });
            }
        }
        let own = placing.iter().filter(|(_, _, only)| *only == component);
        let rules = own.flat_map(|(name, spec, _)| {
            let rules = spec.placement.iter().enumerate();
            rules.map(move |(index, rule)| (format!("{name}/{}", rule.name_or_index(index)), rule.replicas))
        });
        if let Some(sum) = above_hundred(rules) {
            problems.push(Together::Percent {
                reason: format!(
                    "the percentages of all placing steps add up to {sum}: at most 100% can be claimed"
                ),
            });
        }
    }
    problems
}

/// `101% (70% in east/rule-0, 31% in west/rule-0)` if the percentages are above 100 in sum.
pub(crate) fn above_hundred(rules: impl Iterator<Item = (String, Option<ReplicaShare>)>) -> Option<String> {
    let mut sum = 0_u64;
    let mut parts = Vec::new();
    for (name, share) in rules {
        if let Some(ReplicaShare::Percent(percent)) = share {
            sum += u64::from(percent.milli());
            parts.push(format!("{percent} in {name}"));
        }
    }
    if sum <= 100_000 {
        return None;
    }
    let thousandths = format!("{:03}", sum % 1000);
    let decimals = thousandths.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    Some(format!("{}{point}{decimals}% ({})", sum / 1000, parts.join(", ")))
}
