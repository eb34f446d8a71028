//! How the cases ended: for people, and as TAP and JUnit for machines.

use super::{Outcome, Verdict};
use std::fmt::Write as _;

/// For people.
pub(super) fn text(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let width = outcomes
        .iter()
        .map(|outcome| outcome.name.chars().count())
        .max()
        .unwrap_or(0);
    for outcome in outcomes {
        let word = match outcome.verdict {
            Verdict::Passed => "ok     ",
            Verdict::Failed(_) => "FAILED ",
            Verdict::Updated => "updated",
        };
        let pad = " ".repeat(width.saturating_sub(outcome.name.chars().count()));
        let _ = writeln!(out, "{word} {}{pad}  {}", plain(&outcome.name), outcome.file);
        if let Verdict::Failed(difference) = &outcome.verdict {
            for line in difference.lines() {
                let _ = writeln!(out, "        {line}");
            }
        }
    }
    let count = |is: fn(&Verdict) -> bool| outcomes.iter().filter(|outcome| is(&outcome.verdict)).count();
    let updated = count(|verdict| *verdict == Verdict::Updated);
    let tests = if outcomes.len() == 1 { "test" } else { "tests" };
    let _ = write!(
        out,
        "{} {tests}, {} passed, {} failed",
        outcomes.len(),
        count(|verdict| *verdict == Verdict::Passed),
        count(|verdict| matches!(verdict, Verdict::Failed(_)))
    );
    if updated > 0 {
        let _ = write!(out, ", {updated} updated");
    }
    out.push('\n');
    out
}

/// Test Anything Protocol, version 14 (<https://testanything.org/tap-version-14-specification.html>).
pub(super) fn tap(outcomes: &[Outcome]) -> String {
    let mut out = format!("TAP version 14\n1..{}\n", outcomes.len());
    for (index, outcome) in outcomes.iter().enumerate() {
        let not = if matches!(outcome.verdict, Verdict::Failed(_)) {
            "not "
        } else {
            ""
        };
        let title = format!("{} ({})", outcome.name, outcome.file);
        let title = title
            .replace('\\', "\\\\")
            .replace('#', "\\#")
            .replace(['\n', '\r'], " ");
        let _ = writeln!(out, "{not}ok {} - {title}", index + 1);
        if let Verdict::Failed(difference) = &outcome.verdict {
            let _ = writeln!(out, "  ---\n  difference: |");
            for line in difference.lines() {
                let _ = writeln!(out, "    {line}");
            }
            let _ = writeln!(out, "  ...");
        }
    }
    out
}

/// In one line, without control characters.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// JUnit's XML, as CI servers read it.
pub(super) fn junit(suite: &str, outcomes: &[Outcome]) -> String {
    let failed = outcomes
        .iter()
        .filter(|outcome| matches!(outcome.verdict, Verdict::Failed(_)))
        .count();
    let all = outcomes.len();
    let suite = escaped(suite);
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(out, "<testsuites tests=\"{all}\" failures=\"{failed}\">");
    let _ = writeln!(
        out,
        "  <testsuite name=\"{suite}\" tests=\"{all}\" failures=\"{failed}\">"
    );
    for outcome in outcomes {
        let (name, file) = (escaped(&outcome.name), escaped(&outcome.file));
        let _ = write!(out, "    <testcase name=\"{name}\" classname=\"{file}\"");
        let _ = match &outcome.verdict {
            Verdict::Failed(difference) => writeln!(
                out,
                ">\n      <failure message=\"not what is expected\">{}</failure>\n    </testcase>",
                escaped(difference)
            ),
            Verdict::Passed | Verdict::Updated => writeln!(out, "/>"),
        };
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// A text in XML, without the characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(character),
            '\u{fffe}' | '\u{ffff}' => {}
            character if character.is_control() => {}
            character => out.push(character),
        }
    }
    out
}
