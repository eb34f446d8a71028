//! `roundhouse merge`: the three-way merge without a cluster.

use super::Failure;
use clap::ValueEnum;
use roundhouse_patch::three_way_merge;
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Merge last applied × desired × live as `kubectl apply` does, without a cluster
///
/// The strategy follows from apiVersion and kind of the desired object: strategic merge for Kubernetes' built-in kinds,
/// JSON merge for all others.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("input").required(true).args(["desired", "jsonl"]))]
pub(super) struct Args {
    /// What was applied last, YAML or JSON; leave it out for an object that was never applied
    #[arg(long, value_name = "FILE", requires = "desired")]
    last: Option<PathBuf>,
    /// What is wanted, YAML or JSON
    #[arg(long, value_name = "FILE", requires = "live")]
    desired: Option<PathBuf>,
    /// What is there, YAML or JSON
    #[arg(long, value_name = "FILE", requires = "desired")]
    live: Option<PathBuf>,
    /// Many merges: a line {id, lastApplied, modified, live} in, a line {id, patch, result} or {id, error} out; `-` is
    /// stdin. Exit status 1 if a line failed
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Output format of a single merge
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, conflicts_with = "jsonl")]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match (&args.jsonl, &args.desired, &args.live) {
        (Some(path), ..) => lines(path),
        (None, Some(desired), Some(live)) => single(args.last.as_deref(), desired, live, args.output),
        _ => {
            Err(Failure::new("E-USAGE", "there is nothing to merge")
                .advise("--desired F --live F, or --jsonl F"))
        }
    }
}

fn single(last: Option<&Path>, desired: &Path, live: &Path, format: Format) -> Result<ExitCode, Failure> {
    let last = last.map(object).transpose()?;
    let (desired, live) = (object(desired)?, object(live)?);
    let merged = three_way_merge(last.as_ref(), &desired, &live)
        .map_err(|error| Failure::new("E-MERGE", "the objects cannot be merged").because(error))?;
    let answer = json!({
        "patchType": merged.patch_type.content_type(), "patch": merged.patch, "result": merged.result,
    });
    let text = match format {
        Format::Json => serde_json::to_string_pretty(&answer).map_err(not_printable)?,
        Format::Yaml => serde_saphyr::to_string(&answer).map_err(not_printable)?,
    };
    println!("{}", text.trim_end());
    Ok(ExitCode::SUCCESS)
}

fn object(path: &Path) -> Result<Value, Failure> {
    let unreadable = |error: Box<dyn std::error::Error + Send + Sync>| {
        Failure::new("E-INPUT", format!("{} cannot be read", path.display())).because(error)
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(|error| unreadable(error.into()))?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(&text, options).map_err(|error| unreadable(error.into()))
}

fn lines(path: &Path) -> Result<ExitCode, Failure> {
    let unreadable = |error: io::Error| {
        Failure::new("E-INPUT", format!("{} cannot be read", path.display())).because(error)
    };
    let input: Box<dyn BufRead> = match path == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(File::open(path).map_err(unreadable)?)),
    };
    let mut output = BufWriter::new(io::stdout().lock());
    let (mut all, mut failed) = (0_usize, 0_usize);
    for line in input.split(b'\n') {
        let line = line.map_err(unreadable)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        all += 1;
        let answer = merge_line(&line);
        failed += usize::from(answer.get("error").is_some());
        let written = serde_json::to_writer(&mut output, &answer).map_err(io::Error::from);
        written
            .and_then(|()| output.write_all(b"\n"))
            .map_err(not_printable)?;
    }
    output.flush().map_err(not_printable)?;
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{failed} of {all} lines cannot be merged: see their \"error\"");
    Ok(ExitCode::FAILURE)
}

/// One line in, one line out; a line that cannot be read has the id null.
fn merge_line(line: &[u8]) -> Value {
    let case: Value = match serde_json::from_slice(line) {
        Ok(case) => case,
        Err(error) => return json!({"id": null, "error": format!("not JSON: {error}")}),
    };
    let id = case.get("id").cloned().unwrap_or(Value::Null);
    let part = |name: &str| case.get(name).filter(|value| !value.is_null());
    let (Some(desired), Some(live)) = (part("modified"), part("live")) else {
        return json!({"id": id, "error": "modified and live are required: give both as objects"});
    };
    match three_way_merge(part("lastApplied"), desired, live) {
        Ok(merged) => json!({"id": id, "patch": merged.patch, "result": merged.result}),
        Err(error) => json!({"id": id, "error": error.to_string()}),
    }
}

fn not_printable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new("E-OUTPUT", "the answer could not be printed").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &Value) {
        assert_eq!(&merge_line(line.as_bytes()), expected, "{line}");
    }

    #[test]
    fn a_line_in_is_a_line_out() {
        let object = |data: &str| {
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m"}},"data":{data}}}"#)
        };
        let (a, b) = (object(r#"{"k":"1"}"#), object(r#"{"k":"2"}"#));
        let result: Value = serde_json::from_str(&b).unwrap();
        check(
            &format!(r#"{{"id":"x","lastApplied":{a},"modified":{b},"live":{a}}}"#),
            &json!({"id": "x", "patch": {"data": {"k": "2"}}, "result": result}),
        );
        check(
            &format!(r#"{{"id":7,"lastApplied":null,"modified":{b},"live":{b}}}"#),
            &json!({"id": 7, "patch": {}, "result": result}),
        );
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        for (line, part) in [
            ("{", "not JSON"),
            ("[]", "required"),
            (r#"{"id":"x","modified":{}}"#, "required"),
            (r#"{"id":"x","modified":[],"live":{}}"#, "object"),
        ] {
            let answer = merge_line(line.as_bytes());
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(error.contains(part), "{line}: {answer}");
        }
    }
}
