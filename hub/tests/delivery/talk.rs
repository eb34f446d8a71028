//! What a verb tells on stderr does not change how it ends.

use std::{
    fs::File,
    process::{Command, Stdio},
};

#[test]
fn a_verb_ends_as_documented_where_stderr_cannot_be_written_to() {
    let home = tempfile::tempdir().unwrap();
    let (lines, empty) = (home.path().join("lines"), home.path().join("empty"));
    std::fs::write(&lines, "no json\n").unwrap();
    std::fs::write(&empty, "[]").unwrap();
    let (lines, empty) = (lines.to_str().unwrap(), empty.to_str().unwrap());
    for arguments in [
        &["no-verb"][..],
        &["plan", "-f", empty, "--inventory", empty],
        // Told when the work is done and printed.
        &["merge", "--jsonl", lines],
    ] {
        // Every write to it fails.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut verb = Command::new(env!("CARGO_BIN_EXE_roundhouse"));
        verb.args(arguments).stdout(Stdio::null()).stderr(full);
        assert_eq!(verb.status().unwrap().code(), Some(1), "{arguments:?}");
    }
}
