//! Beside etcd, in the same run on the same file system: what the bench of the embedded API server measures.

use anyhow::{Context, Result, ensure};
use roundhouse_e2e::figure::Figure;
use std::process::{Command, Stdio};

const SCENARIO: &str = "peers";

/// Where to look for an etcd.
const ETCD: &str = "ETCD";
/// Why it is not measured by itself.
pub(crate) const NONE: &str = "it needs an etcd, which ETCD names, and a bench beside it";

/// Whether an etcd is named.
pub(crate) fn are_there() -> bool {
    std::env::var_os(ETCD).is_some()
}

/// Our store beside etcd.
pub(crate) fn measure() -> Result<Vec<Figure>> {
    ensure!(are_there(), "{NONE}");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["bench", "-p", "roundhouse-apiserver", "--bench", "store", "--"])
        .args(["durable", "etcd"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "the bench of the store failed:\n{text}");
    let figures: Vec<Figure> = text.lines().filter_map(ratio).collect();
    ensure!(
        !figures.is_empty(),
        "the bench of the store compared nothing:\n{text}"
    );
    Ok(figures)
}

/// `durable store, 1 writer    4.0 times etcd (target 3)`
fn ratio(line: &str) -> Option<Figure> {
    let (left, target) = line.split_once(" times etcd (target ")?;
    let (what, measured) = left.trim_end().rsplit_once("  ")?;
    let target = target.trim_end_matches(')').parse().ok()?;
    let what = format!("{} beside etcd", what.trim());
    let figure = Figure::new(SCENARIO, what, measured.trim().parse().ok()?, "times");
    // Both are bound by the same disk; what each alone makes of it is in the lines above.
    Some(figure.at_least(target).note(
        "both make each write durable on the same file system, with the allocator of the system; a raw fdatasync there is printed above",
    ))
}
