//! Beside etcd, in the same run on the same file system: what the bench of the embedded API server measures.

use crate::Size;
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::figure::Figure;
use std::process::{Command, Stdio};

const SCENARIO: &str = "peers";

/// Nothing where no etcd is named by `ETCD`.
pub(crate) fn measure(size: Size) -> Result<Vec<Figure>> {
    if std::env::var_os("ETCD").is_none() || size == Size::Test {
        eprintln!("  ETCD names no etcd: it is not measured");
        return Ok(Vec::new());
    }
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
    Some(figure.at_least(target))
}
