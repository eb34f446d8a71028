//! Sessions of a shell as text: commands after `$ ` (and `> ` for their further lines), each followed by what it prints.
//!
//! Standard error stands after standard output with `! ` before each line, an exit status that is not 0 in brackets at the
//! end. What differs from run to run (times, uids, addresses, versions) is masked, and columns stand two spaces apart, as
//! their width depends on it.

use regex::Regex;
use std::{fmt::Write as _, sync::LazyLock};

/// One command and what it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// For `sh -c`.
    pub command: String,
    /// As [`printed`] gives it.
    pub output: String,
}

/// Text between commands, and commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A line that begins with `#`, or an empty one between steps.
    Remark(String),
    /// A command.
    Step(Step),
}

/// Reads a transcript.
pub fn parse(text: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = vec![];
    let mut in_command = false;
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            parts.push(Part::Step(Step {
                command: command.to_owned(),
                output: String::new(),
            }));
            in_command = true;
            continue;
        }
        match (line.strip_prefix("> "), parts.last_mut()) {
            (Some(more), Some(Part::Step(step))) if in_command => {
                step.command.push('\n');
                step.command.push_str(more);
            }
            (_, Some(Part::Step(step))) if !line.starts_with("## ") => {
                in_command = false;
                step.output.push_str(line);
                step.output.push('\n');
            }
            (_, last) => {
                in_command = false;
                // The empty line before a remark belongs to it.
                if let Some(Part::Step(step)) = last
                    && (step.output == "\n" || step.output.ends_with("\n\n"))
                {
                    step.output.pop();
                    parts.push(Part::Remark(String::new()));
                }
                parts.push(Part::Remark(line.to_owned()));
            }
        }
    }
    parts
}

/// The text of a transcript.
pub fn write(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Remark(line) => {
                out.push_str(line);
                out.push('\n');
            }
            Part::Step(step) => {
                for (i, line) in step.command.lines().enumerate() {
                    out.push_str(if i == 0 { "$ " } else { "> " });
                    out.push_str(line);
                    out.push('\n');
                }
                out.push_str(&step.output);
            }
        }
    }
    out
}

/// What a command printed, as a transcript has it.
pub fn printed(stdout: &str, stderr: &str, code: i32) -> String {
    let mut out = String::new();
    for (prefix, text) in [("", stdout), ("! ", stderr)] {
        for line in text.lines() {
            // An empty last line in a file is easily lost.
            let line = format!("{prefix}{}", mask(line));
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    if code != 0 {
        let _ = writeln!(out, "[exit {code}]");
    }
    out
}

/// One line without what differs from run to run.
pub fn mask(line: &str) -> String {
    static MASKS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
        let table = [
            (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| \+0000)?", "<time>"),
            (
                r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000",
                "<time>",
            ),
            (
                r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "<uid>",
            ),
            (r#"(resourceVersion"?: ?)"\d+""#, "$1<version>"),
            (r"(Resource Version: +)\d+", "$1<version>"),
            (r"\b10\.(9[6-9]|10\d|11[01])\.\d+\.\d+", "<ip>"),
            (r"127\.0\.0\.1:\d+", "<server>"),
            (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=<digest>"),
            (r"\b3[0-2]\d{3}/TCP", "<port>/TCP"),
            (r"(/tmp/|/var/)[^ ]*/", "<tmp>/"),
            (r"(LIVE|MERGED)-\d+", "$1"),
            (r"kubectl-edit-\d+", "kubectl-edit"),
            (r"(debugger-|-)[a-z0-9]{5}\.$", "$1<random>."),
            (r"kubectl/v[^ ]+", "kubectl/<version>"),
            (r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
            (r"\b(\d+y(\d+d)?|\d+d(\d+h)?|(\d+m)?\d+s)\b", "<age>"),
        ];
        let compiled = table.map(|(from, to)| (Regex::new(from), to));
        compiled
            .into_iter()
            .filter_map(|(regex, to)| Some((regex.ok()?, to)))
            .collect()
    });
    static WIDE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(\S) {2,}").ok());
    let mut line = line.to_owned();
    for (regex, to) in MASKS.iter() {
        line = regex.replace_all(&line, *to).into_owned();
    }
    match WIDE.as_ref() {
        Some(wide) => wide.replace_all(&line, "$1  ").into_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_the_same() {
        let text = "# a remark\n\n$ one\nhello\n! oops\n[exit 1]\n\n## part two\n$ cat <<E\n> b\n> E\nb\n";
        let parts = parse(text);
        assert_eq!(write(&parts), text);
        let steps: Vec<_> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Step(step) => Some((step.command.as_str(), step.output.as_str())),
                Part::Remark(_) => None,
            })
            .collect();
        assert_eq!(
            steps,
            [("one", "hello\n! oops\n[exit 1]\n"), ("cat <<E\nb\nE", "b\n")]
        );
    }

    #[test]
    fn what_differs_is_masked() {
        for (line, expected) in [
            (
                "web    2/2     2     2   4m30s   app=web",
                "web  2/2  2  2  <age>  app=web",
            ),
            (
                "service/web  ClusterIP  10.96.216.10  <none>  80:31234/TCP  3s",
                "service/web  ClusterIP  <ip>  <none>  80:<port>/TCP  <age>",
            ),
            ("  resourceVersion: \"58\"", "  resourceVersion: <version>"),
            (
                "  creationTimestamp: \"2026-11-22T13:37:00Z\"",
                "  creationTimestamp: \"<time>\"",
            ),
            (
                "is running at https://127.0.0.1:46135",
                "is running at https://<server>",
            ),
            ("uid: 18e5cbb7-c15b-44f3-b633-dea8cc31aafe", "uid: <uid>"),
        ] {
            assert_eq!(mask(line), expected);
        }
    }

    #[test]
    fn errors_and_status_are_told_apart() {
        assert_eq!(printed("a\n", "b\n", 1), "a\n! b\n[exit 1]\n");
        assert_eq!(printed("a", "", 0), "a\n");
    }
}
