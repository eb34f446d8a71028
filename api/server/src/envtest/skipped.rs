//! Tests that the servers here have not what they need for, and servers that are not real ones where others are: they are
//! counted, and told once at the end.
//!
//! A test cannot print at the end of its binary, and libtest shows what a passing test prints to nobody. A shell that ends
//! with this process does: its standard input, by which it learns of the tests, is closed then.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
};

use parking_lot::Mutex;

/// What a test may need that is not always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The garbage collector, the namespace controller and others, of `kube-controller-manager` or of an embedded server.
    Controllers,
    /// The embedded API server itself: its data directory, or its end.
    Embedded,
}

impl Need {
    fn text(self) -> &'static str {
        match self {
            Need::Controllers => "needs kube-controller-manager in KUBEBUILDER_ASSETS",
            Need::Embedded => "is about the embedded API server: without KUBEBUILDER_ASSETS",
        }
    }
}

/// Counts, and prints what it has counted when its input ends.
const COUNT: &str = r#"
n=0; all=; m=0; t=0; tests=" "; p=0; paused=" "
while read -r what first rest; do case $what in
  skipped) n=$((n + 1)); all="$all
  $first $rest" ;;
  embedded) m=$((m + first)); case $tests in *" $rest "*) ;; *) t=$((t + 1)); tests="$tests$rest " ;; esac ;;
  paused) case $paused in *" $first "*) ;; *) p=$((p + 1)); paused="$paused$first " ;; esac ;;
esac; done
[ $n = 0 ] || echo "skipped with real API servers: $n$all" >&2
[ $m = 0 ] || echo "members on embedded API servers beside real ones: $m in $t tests; ROUNDHOUSE_REAL_MEMBERS raises how many are real" >&2
[ $p = 0 ] || echo "skipped with real API servers, and run on embedded ones as ever: $p that need their clock or their counts" >&2
"#;

static COUNTED: Mutex<Option<Child>> = Mutex::new(None);

/// Whether the test of this name cannot run where it is: then it is counted.
///
/// # Errors
/// No shell starts to count it.
pub fn skipped(test: &str, need: Need) -> std::io::Result<bool> {
    let Some(assets) = super::assets() else {
        return Ok(false);
    };
    if need == Need::Controllers && super::has_controllers(&assets) {
        return Ok(false);
    }
    told(|shell| count(shell, test, need))?;
    Ok(true)
}

/// Counts members of the test that runs on this thread that are on embedded API servers although others are on real ones.
///
/// # Errors
/// No shell starts to count them.
pub fn embedded(members: usize) -> std::io::Result<()> {
    match members {
        0 => Ok(()),
        members => told(|shell| line(shell, &format!("embedded {members} {}", here()))),
    }
}

/// Counts the test that runs on this thread, once however often it says so, as one that is on embedded API servers although there
/// are real ones: it needs a clock that it can turn, or counts that only those keep.
///
/// # Errors
/// No shell starts to count it.
pub fn paused() -> std::io::Result<()> {
    match super::assets() {
        Some(_) => told(|shell| line(shell, &format!("paused {}", here()))),
        None => Ok(()),
    }
}

/// The test that runs on this thread: libtest calls its threads by them.
fn here() -> String {
    std::thread::current().name().unwrap_or("unknown").to_owned()
}

fn told(tell: impl FnOnce(&mut Child) -> std::io::Result<()>) -> std::io::Result<()> {
    let mut counted = COUNTED.lock();
    tell(match &mut *counted {
        Some(shell) => shell,
        none => none.insert(counting(Stdio::inherit())?),
    })
}

fn counting(output: Stdio) -> std::io::Result<Child> {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", COUNT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    shell.stderr(output).spawn()
}

fn count(shell: &mut Child, test: &str, need: Need) -> std::io::Result<()> {
    line(shell, &format!("skipped {test}: {}", need.text()))
}

fn line(shell: &mut Child, text: &str) -> std::io::Result<()> {
    match &mut shell.stdin {
        Some(input) => writeln!(input, "{text}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_is_told_once_at_the_end() {
        let mut shell = counting(Stdio::piped()).unwrap();
        count(&mut shell, "one", Need::Controllers).unwrap();
        line(&mut shell, "embedded 3 one").unwrap();
        count(&mut shell, "two", Need::Embedded).unwrap();
        for _ in 0..2 {
            line(&mut shell, "embedded 1 two").unwrap();
        }
        for test in ["three", "four", "three"] {
            line(&mut shell, &format!("paused {test}")).unwrap();
        }
        let ended = shell.wait_with_output().unwrap();
        assert!(ended.status.success());
        assert_eq!(
            String::from_utf8(ended.stderr).unwrap(),
            "skipped with real API servers: 2\n  \
             one: needs kube-controller-manager in KUBEBUILDER_ASSETS\n  \
             two: is about the embedded API server: without KUBEBUILDER_ASSETS\n\
             members on embedded API servers beside real ones: 5 in 2 tests; ROUNDHOUSE_REAL_MEMBERS raises how many are real\n\
             skipped with real API servers, and run on embedded ones as ever: 2 that need their clock or their counts\n"
        );
    }
}
