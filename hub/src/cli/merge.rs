//! `roundhouse merge`: the three-way merge without a cluster.

use super::{Failure, terminal};
use clap::ValueEnum;
use roundhouse_patch::three_way_merge;
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    fs::File,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Some editors put it before the first letter of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Merge last applied × desired × live as `kubectl apply` does, without a cluster
///
/// The strategy follows from apiVersion and kind of the desired object: strategic merge for Kubernetes' built-in kinds,
/// JSON merge for all others.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("input").required(true).args(["desired", "jsonl"]))]
#[command(
    override_usage = "roundhouse merge [--last FILE] --desired FILE --live FILE [-o yaml|json]\n       \
    roundhouse merge --jsonl FILE"
)]
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
    let merged = three_way_merge(last.as_ref(), &desired, &live).map_err(|error| {
        Failure::new("E-MERGE", "the objects cannot be merged")
            .because(error)
            .advise("three documents of one object: same apiVersion, kind and metadata.name")
    })?;
    let answer = json!({
        "patchType": merged.patch_type.content_type(), "patch": merged.patch, "result": merged.result,
    });
    let text = match format {
        Format::Json => serde_json::to_string_pretty(&answer).map_err(not_printable)?,
        Format::Yaml => serde_saphyr::to_string(&answer).map_err(not_printable)?,
    };
    terminal::print(&format!("{}\n", text.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}

fn object(path: &Path) -> Result<Value, Failure> {
    let mut text = String::new();
    File::open(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(|error| unreadable(path, error))?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let object: Value =
        serde_saphyr::from_str_with_options(&text, options).map_err(|error| unreadable(path, error))?;
    if object.is_object() {
        return Ok(object);
    }
    Err(
        Failure::new("E-INPUT", format!("{} is not an object", path.display()))
            .advise("a file with one Kubernetes object, as `kubectl get -o yaml` prints it"),
    )
}

fn unreadable(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new("E-INPUT", format!("{} cannot be read", path.display()))
        .because(error)
        .advise("a file that exists, in UTF-8, with one YAML or JSON document (a line, with --jsonl)")
}

fn lines(path: &Path) -> Result<ExitCode, Failure> {
    let input: Box<dyn BufRead> = match path == Path::new("-") {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(
            File::open(path).map_err(|error| unreadable(path, error))?,
        )),
    };
    let mut output = BufWriter::new(io::stdout().lock());
    let (mut all, mut failed) = (0_usize, 0_usize);
    for line in input.split(b'\n') {
        let line = line.map_err(|error| unreadable(path, error))?;
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        all += 1;
        let answer = merge_line(line);
        failed += usize::from(answer.get("error").is_some());
        if let Err(error) = writeln!(output, "{answer}") {
            return reader_gone(error);
        }
    }
    if let Err(error) = output.flush() {
        return reader_gone(error);
    }
    if failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    terminal::tell(format_args!(
        "{failed} of {all} lines cannot be merged: see their \"error\""
    ));
    Ok(ExitCode::FAILURE)
}

/// A reader that has gone away (`| head`) has had enough: that is no failure.
fn reader_gone(error: io::Error) -> Result<ExitCode, Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        _ => Err(not_printable(error)),
    }
}

/// The id of a line of which something else cannot be read, such as a number out of range.
#[derive(Deserialize)]
struct Identified {
    id: Value,
}

/// One line in, one line out; a line whose id cannot be read has the id null.
fn merge_line(line: &[u8]) -> Value {
    let case: Value = match serde_json::from_slice(line) {
        Ok(case) => case,
        Err(error) => {
            let id = serde_json::from_slice::<Identified>(line).map_or(Value::Null, |line| line.id);
            return json!({"id": id, "error": format!("not JSON: {error}")});
        }
    };
    let id = case.get("id").cloned().unwrap_or(Value::Null);
    match merge_case(&case) {
        Ok((patch, result)) => json!({"id": id, "patch": patch, "result": result}),
        Err(error) => json!({"id": id, "error": error}),
    }
}

fn merge_case(case: &Value) -> Result<(Value, Value), String> {
    let part = |name: &str| match case.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(object @ Value::Object(_)) => Ok(Some(object)),
        Some(_) => Err(format!("{name} is not an object: give one Kubernetes object")),
    };
    let (last, desired, live) = (part("lastApplied")?, part("modified")?, part("live")?);
    let (Some(desired), Some(live)) = (desired, live) else {
        return Err("modified and live are required: give both as objects".to_owned());
    };
    let merged = three_way_merge(last, desired, live).map_err(|error| error.to_string())?;
    Ok((merged.patch, merged.result))
}

fn not_printable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new("E-OUTPUT", "the answer could not be printed")
        .because(error)
        .advise("another place for stdout, such as a file on a disk with room")
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
            (
                r#"{"id":"x","modified":[],"live":{}}"#,
                "modified is not an object",
            ),
            (
                r#"{"id":"x","lastApplied":"a","modified":{},"live":{}}"#,
                "lastApplied is not an object",
            ),
        ] {
            let answer = merge_line(line.as_bytes());
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(error.contains(part), "{line}: {answer}");
        }
    }

    #[test]
    fn the_id_of_a_bad_line_is_told() {
        let deep = format!(
            r#"{{"id":"x","modified":{{"a":{}{}}},"live":{{}}}}"#,
            "[".repeat(500),
            "]".repeat(500)
        );
        for line in [
            deep.as_str(),
            r#"{"id":"x","modified":{"a":1e400},"live":{}}"#,
            r#"{"modified":{"a":1e400},"live":{},"id":"x"}"#,
        ] {
            let answer = merge_line(line.as_bytes());
            assert_eq!(answer["id"], "x", "{line}");
            assert!(
                answer["error"].as_str().unwrap_or_default().contains("not JSON"),
                "{line}"
            );
        }
    }
}
