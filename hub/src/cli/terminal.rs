//! What the terminal can do, and what its user wants of it.

use super::Failure;
use std::io::{self, IsTerminal, Write, stderr, stdout};

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

/// Prints data to stdout. A reader that has gone away has had enough: that is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("E-OUTPUT", "stdout cannot be written to")
                .because(error)
                .advise("another place for stdout, such as a file on a disk with room"))
        }
        _ => Ok(()),
    }
}
