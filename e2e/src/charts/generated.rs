//! What is generated is committed, and compared in every test run.

use anyhow::{Context, Result, ensure};
use std::{fs, path::Path};

/// How to write what is generated.
pub const COMMAND: &str = "UPDATE_CHARTS=1 cargo test -p roundhouse-e2e --test charts";

/// Whether files are written instead of compared.
pub fn updating() -> bool {
    std::env::var_os("UPDATE_CHARTS").is_some()
}

/// Compares a file with `expected`, or writes it.
///
/// # Errors
/// It differs, with the first line that does, or cannot be written.
pub fn file(path: &Path, expected: &str) -> Result<()> {
    let there = fs::read_to_string(path).unwrap_or_default();
    if there == expected {
        return Ok(());
    }
    if updating() {
        return fs::write(path, expected).with_context(|| path.display().to_string());
    }
    let same = there
        .lines()
        .zip(expected.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("the end").to_owned();
    ensure!(
        false,
        "{} differs from what is generated in line {}: {:?} is to be {:?}; write it with: {COMMAND}",
        path.display(),
        same + 1,
        line(&there),
        line(expected)
    );
    Ok(())
}

/// Compares what stands between the markers `<!-- NAME -->` and `<!-- end of NAME -->` of a file with `expected`, or writes it.
///
/// # Errors
/// As [`file()`], or the markers are missing.
pub fn section(path: &Path, name: &str, expected: &str) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    file(path, &replaced(&text, name, expected)?)
}

fn replaced(text: &str, name: &str, content: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let parts = text
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
    let (before, (_, after)) =
        parts.with_context(|| format!("the markers {begin:?} and {end:?} are missing"))?;
    Ok(format!("{before}{begin}{content}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_markers_is_replaced_and_nothing_else() {
        let text = "a\n<!-- t -->\nold\n<!-- end of t -->\nb\n";
        let expected = "a\n<!-- t -->\nnew\n<!-- end of t -->\nb\n";
        assert_eq!(replaced(text, "t", "new\n").unwrap(), expected);
        assert_eq!(replaced(expected, "t", "new\n").unwrap(), expected);
        assert!(replaced(text, "u", "new\n").is_err());
    }
}
