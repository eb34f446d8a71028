//! `--update`: writes the expectations anew and leaves everything else of a file as it is, comments included.

use super::expect::Expect;
use crate::cli::{Failure, documents};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Block<'a> {
    expect: &'a Expect,
}

/// Writes the expectations of the cases that start at these lines.
///
/// # Errors
/// The file cannot be read or written.
pub(super) fn write(file: &Path, rewrites: &[(usize, Expect)]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::new("E-OUTPUT", format!("{} was not updated", file.display()))
            .because(error)
            .advise("a file that you may write to")
    };
    let mut text = documents::text(file)?;
    // From the last to the first, so that the lines before stay where they are.
    for (line, expect) in rewrites.iter().rev() {
        let block = serde_saphyr::to_string(&Block { expect });
        let block = block.map_err(|error| failed(std::io::Error::other(error)))?;
        text = replaced(&text, *line, &block);
    }
    std::fs::write(file, text).map_err(failed)
}

/// The text with `block` in place of the top-level `expect` of the document that starts at `line`.
fn replaced(text: &str, line: usize, block: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = line.saturating_sub(1);
    // A marker may stand on the first line of a document itself.
    let is_marker = |at: usize| {
        at > start
            && lines
                .get(at)
                .is_some_and(|line| line.trim_end() == "---" || line.starts_with("--- "))
    };
    let end = (start..lines.len())
        .find(|at| is_marker(*at))
        .unwrap_or(lines.len());
    let is_key = |line: &str| !line.starts_with([' ', '\t', '#', '-', '}', ']']) && !line.trim().is_empty();
    let from = (start..end).find(|at| lines.get(*at).is_some_and(|line| line.starts_with("expect:")));
    let (from, to) = match from {
        None => (end, end),
        Some(from) => {
            let next = (from + 1..end).find(|at| lines.get(*at).is_some_and(|line| is_key(line)));
            // Empty lines and comments before what follows belong to that.
            let mut to = next.unwrap_or(end);
            while to > from + 1
                && lines
                    .get(to - 1)
                    .is_some_and(|line| line.trim().is_empty() || line.starts_with('#'))
            {
                to -= 1;
            }
            (from, to)
        }
    };
    let mut out = String::new();
    for line in lines.iter().take(from) {
        out.push_str(line);
        out.push('\n');
    }
    out.push_str(block.trim_end());
    out.push('\n');
    for line in lines.iter().skip(to) {
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn only_the_expectation_of_the_case_changes() {
        let text = "# top\nname: a\nexpect:\n  placements:\n  - {step: s}\n\n# fleet\ninventory: f\n---\nname: b\nexpect: {errors: []}\n";
        assert_eq!(
            replaced(text, 2, "expect: NEW\n"),
            "# top\nname: a\nexpect: NEW\n\n# fleet\ninventory: f\n---\nname: b\nexpect: {errors: []}\n"
        );
        assert_eq!(
            replaced(text, 10, "expect: NEW\n"),
            "# top\nname: a\nexpect:\n  placements:\n  - {step: s}\n\n# fleet\ninventory: f\n---\nname: b\nexpect: NEW\n"
        );
        assert_eq!(replaced("name: a\n", 1, "expect: NEW"), "name: a\nexpect: NEW\n");
    }
}
