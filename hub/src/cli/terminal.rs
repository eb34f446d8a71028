//! What the terminal can do, and what its user wants of it.

use std::io::{IsTerminal, stderr, stdout};

/// Whether things may be drawn over on stderr.
pub(super) fn stderr_is_live() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether stderr takes colours.
pub(super) fn color_on_stderr() -> bool {
    stderr_is_live() && !no_color()
}

/// Whether stdout takes colours.
pub(super) fn color_on_stdout() -> bool {
    stdout().is_terminal() && !no_color()
}

/// <https://no-color.org>: set and not empty means no.
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
