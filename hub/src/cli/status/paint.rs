//! Bars, marks and colours.

use roundhouse_api::application::{StepPhase, StepStatus};

/// Cells of a bar.
const BAR: u64 = 12;

/// How things are drawn.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::cli) struct Style {
    pub(in crate::cli) color: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self.color {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(super) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(super) fn state(self, state: super::State, text: &str) -> String {
        let code = match state {
            super::State::Done => "32",
            super::State::InProgress => "36",
            super::State::Failed => "31",
            super::State::Awaiting => "33",
        };
        self.paint(code, text)
    }

    pub(super) fn mark(self, step: &StepStatus) -> String {
        match step.phase {
            _ if step.is_retried() => self.paint("33", "↻"),
            StepPhase::Pending => self.faint("·"),
            StepPhase::Running => self.paint("36", "▶"),
            StepPhase::Suspending => self.paint("33", "‖"),
            StepPhase::Succeeded => self.paint("32", "✔"),
            StepPhase::Failed => self.paint("31", "✖"),
            StepPhase::Skipped => self.faint("–"),
        }
    }

    /// `████░░░░░░░░`: never full before all is ready.
    pub(super) fn bar(self, ready: u64, all: u64, trouble: bool) -> String {
        let filled = match all {
            0 => BAR,
            all => (u128::from(ready.min(all)) * u128::from(BAR) / u128::from(all))
                .try_into()
                .unwrap_or(BAR),
        };
        let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or(0));
        let color = if trouble { "31" } else { "32" };
        let full = self.paint(color, &cells(filled, "█"));
        let empty = match BAR - filled {
            0 => String::new(),
            rest => self.faint(&cells(rest, "░")),
        };
        format!("{full}{empty}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_only_when_all_is_ready() {
        let bar = |ready, all| Style::default().bar(ready, all, false);
        assert_eq!(bar(0, 3), "░░░░░░░░░░░░");
        assert_eq!(bar(1, 3), "████░░░░░░░░");
        assert_eq!(bar(999, 1_000), "███████████░");
        assert_eq!(bar(3, 3), "████████████");
        assert_eq!(bar(9, 3), "████████████");
        assert_eq!(bar(u64::MAX, u64::MAX), "████████████");
    }
}
