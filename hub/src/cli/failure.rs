//! How a verb fails: what, why, and what to try.

use super::columns;
use std::{error::Error, fmt};

/// A failure as it is shown: `error:`, `cause:` and `try:` lines.
#[derive(Debug)]
pub struct Failure {
    code: &'static str,
    what: String,
    causes: Vec<String>,
    advice: Option<String>,
    status: u8,
}

impl Failure {
    /// A failure with a code that scripts can look for, and what could not be done.
    pub fn new(code: &'static str, what: impl Into<String>) -> Self {
        Failure {
            code,
            what: what.into(),
            causes: Vec::new(),
            advice: None,
            status: 1,
        }
    }

    /// The verb ends with this exit status, where it is not 1.
    #[must_use]
    pub fn ends_with(mut self, status: u8) -> Self {
        self.status = status;
        self
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        self.status
    }

    /// Adds an error and those behind it as causes. One that only repeats the text before it is left out.
    #[must_use]
    pub fn because(mut self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let error = error.into();
        let mut next: Option<&(dyn Error + 'static)> = Some(error.as_ref());
        while let Some(error) = next {
            let text = error.to_string();
            if !self.causes.last().is_some_and(|last| last.contains(&text)) {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds what to try.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Adds what to do after what to try.
    #[must_use]
    pub fn then(mut self, next: &str) -> Self {
        self.advice = Some(match self.advice {
            Some(advice) => format!("{advice}, then {next}"),
            None => next.to_owned(),
        });
        self
    }

    /// Adds something else to try.
    #[must_use]
    pub fn or_try(mut self, other: &str) -> Self {
        self.advice = Some(match self.advice {
            Some(advice) => format!("{advice}; or {other}"),
            None => other.to_owned(),
        });
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {} [{}]", plain(&self.what), self.code)?;
        for cause in &self.causes {
            write!(f, "\ncause: {}", plain(cause))?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\ntry:   {}", plain(advice))?;
        }
        Ok(())
    }
}

/// Without control characters: a part of it may be what somebody else has written. Further lines stand below the first, so
/// that none of them looks like a word of ours.
fn plain(text: &str) -> String {
    let lines: Vec<String> = text
        .trim_end_matches('\n')
        .split('\n')
        .map(columns::plain)
        .collect();
    lines.join("\n       ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open hub.kubeconfig: {source}")]
    struct Outer {
        source: std::io::Error,
    }

    #[test]
    fn what_others_have_written_cannot_move_the_cursor_or_look_like_ours() {
        let failure = Failure::new("E-REFUSED", "\u{1b}[2Jweb")
            .because("step east: \u{1b}]0;title\u{7}\r\ntry:   rm -rf\n")
            .advise("\u{9b}2J");
        assert_eq!(
            failure.to_string(),
            "error: \\u{1b}[2Jweb [E-REFUSED]\n\
             cause: step east: \\u{1b}]0;title\\u{7}\\r\n       \
             try:   rm -rf\n\
             try:   \\u{9b}2J"
        );
    }

    #[test]
    fn a_failure_says_what_why_and_what_to_try() {
        let inner = std::io::Error::other("disk full");
        let failure = Failure::new("E-KUBECONFIG", "the kubeconfig was not written")
            .because(Outer { source: inner })
            .advise("another directory with --data-dir");
        assert_eq!(
            failure.to_string(),
            "error: the kubeconfig was not written [E-KUBECONFIG]\n\
             cause: cannot open hub.kubeconfig: disk full\n\
             try:   another directory with --data-dir"
        );
    }
}
