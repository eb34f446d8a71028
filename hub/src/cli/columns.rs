//! Rows in columns, as kubectl prints them: two spaces between, nothing at the end of a line.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Draws rows under a header. Columns that `numbers` names are aligned to the right.
pub(super) fn draw(header: &[&str], rows: &[Vec<String>], numbers: &[&str]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for row in rows {
        table.add_row(row.iter().map(|cell| plain(cell)));
    }
    for (column, name) in table.column_iter_mut().zip(header) {
        column.set_padding((0, 2));
        if numbers.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut out = String::new();
    for line in table.to_string().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Without control characters: what comes from a cluster may hold anything.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => out.extend(character.escape_default()),
            false => out.push(character),
        }
    }
    out
}

/// Every line behind `margin`.
pub(super) fn indented(text: &str, margin: &str) -> String {
    text.lines()
        .map(|line| format!("{margin}{line}").trim_end().to_owned() + "\n")
        .collect()
}
