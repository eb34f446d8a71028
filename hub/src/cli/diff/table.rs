//! The differences as a table, and what is said of objects as a whole in lines behind it.

use super::line;
use crate::cli::columns::plain;
use comfy_table::{ContentArrangement, Table, presets};
use roundhouse_agent::preview::{Preview, Verdict};

/// How much of a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// As much as fits into a line.
    Fitting,
    /// All of it, and more about its owner.
    Whole,
}

/// Draws it; nothing at all when nothing differs.
pub(super) fn draw(preview: &Preview, width: Width, color: bool) -> String {
    let limit = (width == Width::Fitting).then_some(line::FITTING);
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "VERDICT",
        "OBJECT",
        "PATH",
        "LAST APPLIED",
        "LIVE",
        "DESIRED",
        "OWNER",
    ]);
    let mut verdicts: Vec<Verdict> = Vec::new();
    for object in &preview.objects {
        for difference in &object.differences {
            verdicts.push(difference.verdict);
            table.add_row([
                difference.verdict.word().to_owned(),
                line::object(object),
                plain(&difference.path),
                line::value(difference.last_applied.as_ref(), limit),
                line::value(difference.live.as_ref(), limit),
                line::value(difference.desired.as_ref(), limit),
                line::owners(&difference.owners, width == Width::Whole),
            ]);
        }
    }
    let padding = table.column_iter_mut();
    for column in padding {
        column.set_padding((0, 2));
    }
    let mut out = String::new();
    if !verdicts.is_empty() {
        let text = table.to_string();
        let mut lines = text.lines();
        if let Some(header) = lines.next() {
            out.push_str(header.trim_end());
            out.push('\n');
        }
        for (row, verdict) in lines.zip(verdicts) {
            let rest = row.strip_prefix(verdict.word()).unwrap_or(row);
            out.push_str(&line::painted(verdict.word(), verdict, color));
            out.push_str(rest.trim_end());
            out.push('\n');
        }
    }
    for held in &preview.held {
        let message = plain(&held.message);
        out.push_str(&format!(
            "Bundle {}: held ({}): {message}\n",
            held.bundle, held.reason
        ));
    }
    for object in &preview.objects {
        if let Some(remark) = line::remark(object) {
            out.push_str(&format!("{}: {remark}\n", line::object(object)));
        }
    }
    out
}
