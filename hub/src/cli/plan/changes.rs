//! The changes part of a table: object by object, equal changes together.

use super::screen::{Screen, cut, listed};
use crate::{
    cli::columns::plain,
    plan::{
        Action, ApplicationPlan,
        change::{FieldChange, Shown},
        cluster::ObjectId,
        group::{ObjectGroup, Variant},
    },
    words::{counted, more, thousands},
};
use serde_json::Value;
use std::fmt::Write as _;

/// Objects, variants of one and fields of a variant that are shown at most.
const MAX_OBJECTS: usize = 20;
const MAX_VARIANTS: usize = 4;
const MAX_FIELDS: usize = 10;
/// Characters of a value at most.
const MAX_VALUE: usize = 48;

/// Draws what changes.
pub(super) fn draw(out: &mut String, plan: &ApplicationPlan, screen: &Screen) {
    let counts = plan.counts();
    let bundles = [
        (Action::Add, counts.add),
        (Action::Change, counts.change),
        (Action::Destroy, counts.destroy),
    ];
    let bundles = bundles.map(|(action, count)| {
        let text = format!("{} {}", action.sign(), thousands(count as u64));
        if count > 0 {
            screen.of_action(action, &text)
        } else {
            text
        }
    });
    let _ = writeln!(out, "  Changes   bundles {}", bundles.join("  "));
    let shown = screen.at_most(MAX_OBJECTS);
    for group in plan.changes.iter().take(shown) {
        of_object(out, group, screen);
    }
    if plan.changes.len() > shown {
        let _ = writeln!(out, "    {} objects (-o wide)", more(plan.changes.len() - shown));
    }
}

fn of_object(out: &mut String, group: &ObjectGroup, screen: &Screen) {
    let title = format!("{} {}", group.action.sign(), title(&group.id));
    let mut clusters = counted(group.clusters(), "cluster");
    if group.action != Action::Destroy {
        let _ = write!(clusters, ", {}", counted(group.variants.len(), "variant"));
    }
    let _ = writeln!(
        out,
        "    {}  ({clusters})",
        screen.of_action(group.action, &title)
    );
    let shown = screen.at_most(MAX_VARIANTS);
    for variant in group.variants.iter().take(shown) {
        of_variant(out, group, variant, screen);
    }
    if group.variants.len() > shown {
        let rest = group.variants.iter().skip(shown);
        let clusters: usize = rest.map(|variant| variant.clusters.len()).sum();
        let variants = more(group.variants.len() - shown);
        let _ = writeln!(
            out,
            "        {variants} variants on {} (-o wide)",
            counted(clusters, "cluster")
        );
    }
}

fn of_variant(out: &mut String, group: &ObjectGroup, variant: &Variant, screen: &Screen) {
    let names: Vec<String> = variant.clusters.iter().map(|(name, _)| name.clone()).collect();
    if group.variants.len() > 1 || group.action == Action::Destroy || screen.width.is_none() {
        let width = screen.width.map(|width| width.saturating_sub(12));
        let _ = writeln!(out, "        on {}", screen.faint(&listed(&names, width)));
    }
    let shown = screen.at_most(MAX_FIELDS);
    for field in variant.fields.iter().take(shown) {
        of_field(out, field, screen);
    }
    if variant.fields.len() > shown {
        let _ = writeln!(
            out,
            "        {} fields (-o wide)",
            more(variant.fields.len() - shown)
        );
    }
    if let Some((before, after)) = variant.replicas().filter(|(before, after)| before != after) {
        let moved = variant
            .clusters
            .iter()
            .filter(|(_, counts)| counts.is_some_and(|(b, a)| b != a));
        let moved: Vec<String> = moved
            .filter_map(|(name, counts)| {
                counts.map(|(b, a)| format!("{name} {} → {}", thousands(b), thousands(a)))
            })
            .collect();
        let start = format!("        replicas  {} → {}", thousands(before), thousands(after));
        let width = screen
            .width
            .map(|width| width.saturating_sub(start.chars().count() + 2));
        let _ = match group.action {
            Action::Change => writeln!(out, "{start}: {}", listed(&moved, width)),
            _ => writeln!(out, "{start}"),
        };
    } else if group.action == Action::Change {
        shifted(out, variant, screen);
    }
}

/// Replicas that move between clusters, where their sum stays.
fn shifted(out: &mut String, variant: &Variant, screen: &Screen) {
    let moved = variant.clusters.iter().filter_map(|(name, counts)| {
        let (before, after) = (*counts)?;
        (before != after).then(|| format!("{name} {} → {}", thousands(before), thousands(after)))
    });
    let moved: Vec<String> = moved.collect();
    if !moved.is_empty() {
        let width = screen.width.map(|width| width.saturating_sub(26));
        let _ = writeln!(out, "        replicas  move: {}", listed(&moved, width));
    }
}

fn of_field(out: &mut String, field: &FieldChange, screen: &Screen) {
    let sign = match (&field.before, &field.after) {
        (None, _) => '+',
        (_, None) => '-',
        _ => '~',
    };
    let show = |shown: &Option<Shown>| {
        let text = shown.as_ref().map_or_else(|| "-".to_owned(), value);
        match screen.width {
            Some(_) => cut(&text, MAX_VALUE),
            None => text,
        }
    };
    let mut line = format!(
        "        {sign} {}  {} → {}",
        plain(&field.path),
        show(&field.before),
        show(&field.after)
    );
    if field.restarts {
        line.push_str("  (restarts pods)");
    }
    let _ = writeln!(out, "{line}");
}

/// `Deployment.apps default/web`.
pub(super) fn title(id: &ObjectId) -> String {
    let mut text = plain(&id.kind);
    if !id.group.is_empty() {
        let _ = write!(text, ".{}", plain(&id.group));
    }
    text.push(' ');
    if !id.namespace.is_empty() {
        let _ = write!(text, "{}/", plain(&id.namespace));
    }
    text.push_str(&plain(&id.name));
    text
}

fn value(shown: &Shown) -> String {
    match shown {
        Shown::Digest(digest) => format!("sha256:{digest}"),
        Shown::Value(Value::String(text)) if is_word(text) => text.clone(),
        Shown::Value(value) => plain(&value.to_string()),
    }
}

/// A text that cannot be taken for something else without its quotes.
fn is_word(text: &str) -> bool {
    let is_plain = text.chars().all(|c| !c.is_whitespace() && !c.is_control());
    !text.is_empty() && text != "-" && is_plain && serde_json::from_str::<Value>(text).is_err()
}
