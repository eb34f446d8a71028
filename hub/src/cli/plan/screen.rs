//! What it is drawn on: how wide, with which colours, and how much may be left out.

use crate::{
    cli::terminal,
    plan::{Action, risk::Level},
    words::more,
};

/// Columns where nobody says how many there are: a pipe, a file, a log.
const COLUMNS: usize = 110;
/// Fewer columns than this are not drawn for.
const MIN_COLUMNS: usize = 60;

/// Where a plan is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    /// Columns; `None`: as many as it takes, and nothing is left out.
    pub(super) width: Option<usize>,
    pub(super) color: bool,
}

impl Screen {
    /// What stdout is.
    pub(super) fn of_stdout() -> Screen {
        let width = terminal::columns().unwrap_or(COLUMNS).max(MIN_COLUMNS);
        Screen {
            width: Some(width),
            color: terminal::color_on_stdout(),
        }
    }

    /// The same with everything on it.
    pub(super) fn whole(self) -> Screen {
        Screen { width: None, ..self }
    }

    /// At most this many entries of a list; all of them where nothing is left out.
    pub(super) fn at_most(&self, count: usize) -> usize {
        self.width.map_or(usize::MAX, |_| count)
    }

    /// A line cut to the width.
    pub(super) fn fit(&self, line: &str) -> String {
        match self.width {
            Some(width) => cut(line, width),
            None => line.to_owned(),
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        match self.color {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    pub(super) fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn faint(&self, text: &str) -> String {
        self.paint("2", text)
    }

    /// A text in the colour of what becomes of its subject.
    pub(super) fn of_action(&self, action: Action, text: &str) -> String {
        match action {
            Action::Add => self.paint("32", text),
            Action::Change => self.paint("33", text),
            Action::Destroy => self.paint("31", text),
            Action::Keep => text.to_owned(),
        }
    }

    /// A text in the colour of a risk.
    pub(super) fn of_level(&self, level: Level, text: &str) -> String {
        match level {
            Level::None | Level::Low => self.paint("32", text),
            Level::Medium => self.paint("33", text),
            Level::High | Level::Blocked => self.paint("1;31", text),
        }
    }
}

/// A text of at most `width` characters, with `…` where something is missing.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Entries in a line of at most `width` characters: what does not fit is counted, never dropped. The first is always there.
pub(super) fn listed(entries: &[String], width: Option<usize>) -> String {
    let whole = entries.join(", ");
    let Some(width) = width.filter(|width| whole.chars().count() > *width) else {
        return whole;
    };
    let mut text = entries.first().cloned().unwrap_or_default();
    for (index, entry) in entries.iter().enumerate().skip(1) {
        let next = format!("{text}, {entry}");
        let behind = format!(", {}", more(entries.len() - index - 1));
        if next.chars().count() + behind.chars().count() > width {
            return format!("{text}, {}", more(entries.len() - index));
        }
        text = next;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_fits_and_says_what_is_missing() {
        let entries: Vec<String> = (1..=20).map(|n| format!("c{n} {n}")).collect();
        assert_eq!(listed(&entries, Some(30)), "c1 1, c2 2, … and 18 more");
        assert_eq!(listed(&entries[..3], Some(16)), "c1 1, c2 2, c3 3");
        assert_eq!(listed(&entries[..1], Some(2)), "c1 1");
        for width in 0..200 {
            let text = listed(&entries, Some(width));
            let shown = text.matches('c').count();
            match text.split_once("… and ") {
                Some((_, rest)) => assert_eq!(rest, format!("{} more", 20 - shown), "{text}"),
                None => assert_eq!(shown, 20, "{text}"),
            }
        }
        assert_eq!(listed(&entries, None).matches('c').count(), 20);
    }

    #[test]
    fn a_text_that_is_cut_says_so() {
        assert_eq!(
            (cut("abcdef", 6), cut("abcdef", 4)),
            ("abcdef".to_owned(), "abc…".to_owned())
        );
    }
}
