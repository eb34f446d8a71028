//! What the terminal can do, and what its user wants of it.

use super::Failure;
use std::{
    fmt,
    io::{self, IsTerminal, StdoutLock, Write, stderr, stdout},
};

/// Whether things may be drawn over on stderr.
pub(super) fn stderr_is_live() -> bool {
    stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether things may be drawn over on stdout.
pub(super) fn stdout_is_live() -> bool {
    stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
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

/// How many columns stdout has; `None` if it is no terminal. `COLUMNS` says otherwise where it is set.
pub(super) fn columns() -> Option<usize> {
    let said = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    said.or_else(|| {
        let (_, columns) = console::Term::stdout().size_checked()?;
        Some(usize::from(columns))
    })
}

/// Says one line on stderr. What a verb has done is done, whether or not anybody can be told: an error of stderr changes nothing.
pub(super) fn tell(line: fmt::Arguments<'_>) {
    say(&format!("{line}\n"));
}

/// The same of text that has its own ends of lines, or wants none.
pub(super) fn say(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}

/// Prints data to stdout as it is made. A reader that has gone away has had enough: that is no failure.
pub(super) fn print_with(
    make: impl FnOnce(&mut io::BufWriter<StdoutLock<'static>>) -> io::Result<()>,
) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(stdout().lock());
    ended(make(&mut out).and_then(|()| out.flush()))
}

/// Prints data to stdout. A reader that has gone away has had enough: that is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    ended(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn ended(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new("E-OUTPUT", "stdout cannot be written to")
                .because(error)
                .advise("another place for stdout, such as a file on a disk with room"))
        }
        _ => Ok(()),
    }
}
