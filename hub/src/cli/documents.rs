//! The documents of files that a user names: YAML or JSON, one or many, each with its place for messages.

use super::Failure;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use roundhouse_apiserver::Structure;
use serde_json::Value;
use std::{
    fmt, io,
    io::Read,
    path::{Path, PathBuf},
};

/// Files larger than this are no policies: memory stays bounded.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// One object of a file.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// What it says.
    pub(super) value: Value,
    /// Where it is.
    pub(super) place: Place,
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The file as the user named it; `stdin` for `-`.
    pub(super) file: String,
    /// Which document of the file, from 1.
    pub(super) number: usize,
    /// Where it starts, from 1.
    pub(super) line: usize,
    /// Which entry of a list, from 1, if it is one.
    pub(super) item: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, document {} (line {})", self.file, self.number, self.line)?;
        self.item.map_or(Ok(()), |item| write!(f, ", item {item}"))
    }
}

/// Reads every document of these files, in order. A directory stands for its `.yaml`, `.yml` and `.json` files by
/// name, without those of its directories; `-` is stdin. Items of a `List` are documents of their own.
///
/// # Errors
/// A file that cannot be read, or has no document; a document that does not parse, with its line.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for path in paths {
        let (mut own, _) = of_path(path)?;
        if own.is_empty() {
            return Err(without_document(path));
        }
        documents.append(&mut own);
    }
    Ok(documents)
}

/// The same of one path, where a list may be empty.
///
/// # Errors
/// As [`read`].
pub(super) fn read_list(path: &Path) -> Result<Vec<Document>, Failure> {
    match of_path(path)? {
        (_, 0) => Err(without_document(path)),
        (documents, _) => Ok(documents),
    }
}

/// Stdin has one reader.
///
/// # Errors
/// More than one of these paths is `-`.
pub(super) fn stdin_once<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), Failure> {
    let of_stdin = paths.into_iter().filter(|path| path.as_path() == Path::new("-"));
    match of_stdin.count() {
        0 | 1 => Ok(()),
        _ => Err(Failure::new("E-USAGE", "the command line is not understood")
            .because("- can be read once")
            .advise("a file in place of the other -")),
    }
}

fn without_document(path: &Path) -> Failure {
    Failure::new("E-INPUT", format!("{} has no document", title(path)))
        .advise("a file, or a directory of .yaml, .yml or .json files, with at least one object")
}

/// The objects that a path stands for, and how many documents they were in: lists may be empty.
fn of_path(path: &Path) -> Result<(Vec<Document>, usize), Failure> {
    let (mut documents, mut count) = (Vec::new(), 0);
    for file in files(path)? {
        let text = text(&file)?;
        let (mut own, of_file) = split_counted(&title(&file), &text)?;
        documents.append(&mut own);
        count += of_file;
    }
    Ok((documents, count))
}

/// The files that a path stands for.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = entries.map_err(|error| unreadable(path, error))?;
    let is_ours = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file()
    };
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    files.retain(is_ours);
    files.sort();
    Ok(files)
}

/// The text of a file, or of stdin.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is larger than any policy.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(|error| unreadable(path, error))?)
    };
    let mut text = String::new();
    let read = source.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    match read {
        Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => Err(unreadable(
            path,
            format!("it has more than {} MiB", MAX_FILE_BYTES >> 20),
        )),
        Ok(_) => Ok(text),
        Err(error) => Err(unreadable(path, error)),
    }
}

fn title(path: &Path) -> String {
    match path == Path::new("-") {
        true => "stdin".to_owned(),
        false => path.display().to_string(),
    }
}

fn unreadable(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new("E-INPUT", format!("{} cannot be read", title(path)))
        .because(error)
        .advise("a file that exists, in UTF-8; a directory of .yaml, .yml or .json files; or - for stdin")
}

/// The documents of a text.
///
/// # Errors
/// One does not parse; the message has its line.
pub(super) fn split(file: &str, text: &str) -> Result<Vec<Document>, Failure> {
    split_counted(file, text).map(|(documents, _)| documents)
}

/// The same, and how many documents say anything: an empty list is one without an object.
fn split_counted(file: &str, text: &str) -> Result<(Vec<Document>, usize), Failure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    let (mut number, mut count) = (0, 0);
    for (line, piece) in pieces(text) {
        if is_blank(piece) {
            continue;
        }
        number += 1;
        let place = Place {
            file: file.to_owned(),
            number,
            line,
            item: None,
        };
        let value = parse(piece).map_err(|()| not_parsed(&place, piece))?;
        if !value.is_null() {
            count += 1;
            expand(value, place, &mut documents);
        }
    }
    Ok((documents, count))
}

/// The text between `---` lines, each with the number of its first line that says something. The marker stays with what
/// follows it: something may stand behind it on the same line.
fn pieces(text: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let (mut start, mut first, mut offset) = (0, 1, 0);
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if is_marker && offset > start {
            pieces.push((first, text.get(start..offset).unwrap_or_default()));
            (start, first) = (offset, index + 1);
        }
        offset += line.len();
    }
    pieces.push((first, text.get(start..).unwrap_or_default()));
    let with_content = |(first, piece): (usize, &'_ str)| {
        let before = piece.lines().take_while(|line| is_blank(line)).count();
        first + before
    };
    pieces
        .into_iter()
        .map(|piece| (with_content(piece), piece.1))
        .collect()
}

/// Whether nothing but comments, directives and markers is there.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.strip_prefix("---").unwrap_or(line).trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "..."
    })
}

fn parse(text: &str) -> Result<Value, ()> {
    // JSON is YAML too, but quicker as what it is.
    if text.trim_start().starts_with(['{', '['])
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    yaml(text).map_err(|_| ())
}

fn yaml(text: &str) -> Result<Value, serde_saphyr::Error> {
    // Files of a user's own: as large as the largest fleet.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! { max_events: usize::MAX, max_nodes: usize::MAX, max_total_scalar_bytes: usize::MAX },
    };
    serde_saphyr::from_str_with_options(text, options)
}

/// Parsed again behind as many empty lines as are before it, so that the message has the file's own line.
fn not_parsed(place: &Place, piece: &str) -> Failure {
    let start = place.line - piece.lines().take_while(|line| is_blank(line)).count();
    let padded = format!("{}{piece}", "\n".repeat(start.saturating_sub(1)));
    let failure = Failure::new("E-INPUT", format!("{place} does not parse"));
    let failure = match yaml(&padded) {
        Err(error) => {
            let line = error.location().map(|location| location.line());
            let text = error.without_snippet().to_string();
            let text = text.lines().next().unwrap_or_default();
            // Its advice is for programs.
            let text = text.split(", set DuplicateKeyPolicy").next().unwrap_or_default();
            let again = ["apiVersion", "kind"]
                .iter()
                .any(|key| text.ends_with(&format!("duplicate mapping key: {key}")));
            let text = match again {
                true => format!("{text}: is a line of --- missing before it?"),
                false => text.to_owned(),
            };
            let at = line.map_or_else(String::new, |line| format!("line {line}: "));
            failure.because(format!("{at}{text}"))
        }
        Ok(_) => failure,
    };
    failure.advise("YAML or JSON, with the documents of a file separated by lines of ---")
}

/// Items of a list are documents of their own.
fn expand(value: Value, place: Place, documents: &mut Vec<Document>) {
    let is_list = |value: &Value| {
        let kind = value.get("kind").and_then(Value::as_str);
        kind.is_some_and(|kind| kind.ends_with("List")) && value.get("items").is_some_and(Value::is_array)
    };
    let items = match value {
        Value::Array(items) => items,
        Value::Object(mut map) if is_list(&Value::Object(map.clone())) => match map.remove("items") {
            Some(Value::Array(items)) => items,
            _ => return,
        },
        value => return documents.push(Document { value, place }),
    };
    documents.extend(items.into_iter().enumerate().map(|(index, value)| Document {
        value,
        place: Place {
            item: Some(index + 1),
            ..place.clone()
        },
    }));
}

/// Fields of an object that its definition does not have, as `spec.taint (known: accepted, taints)`; at most one per node.
pub(super) fn unknown_fields(object: &Value, definition: &CustomResourceDefinition) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(schema) = schema(definition) {
        walk(object, schema, "", &mut found);
    }
    found
}

/// What values the fields of such objects take.
pub(super) fn structure(definition: &CustomResourceDefinition) -> Structure {
    let schema = schema(definition).and_then(|schema| serde_json::to_value(schema).ok());
    Structure::of(&schema.unwrap_or_default())
}

fn schema(definition: &CustomResourceDefinition) -> Option<&JSONSchemaProps> {
    let version = definition.spec.versions.first()?;
    version.schema.as_ref()?.open_api_v3_schema.as_ref()
}

fn walk(value: &Value, schema: &JSONSchemaProps, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let open = schema.x_kubernetes_preserve_unknown_fields == Some(true)
                || schema.additional_properties.is_some();
            for (key, value) in map {
                let own = match path {
                    "" => key.clone(),
                    path => format!("{path}.{key}"),
                };
                let known = schema.properties.as_ref().and_then(|known| known.get(key));
                match known {
                    Some(schema) => walk(value, schema, &own, found),
                    // What every object has.
                    None if path.is_empty() && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") => {
                    }
                    None if open => {}
                    None => {
                        let known = schema.properties.iter().flatten().map(|(name, _)| name.as_str());
                        let known: Vec<&str> = known.collect();
                        found.push(format!("{own} (known: {})", known.join(", ")));
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(JSONSchemaPropsOrArray::Schema(schema)) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    walk(item, schema, &format!("{path}[{index}]"), found);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn places(text: &str) -> Vec<String> {
        let documents = split("f.yaml", text).unwrap();
        documents
            .iter()
            .map(|document| format!("{} {}", document.place, document.value))
            .collect()
    }

    #[test]
    fn documents_know_where_they_are() {
        let text = "# first\n\na: 1\n---\n# nothing\n---\nb: |\n  --- no marker\n--- {c: 3}\n---\n";
        assert_eq!(
            places(text),
            [
                r#"f.yaml, document 1 (line 3) {"a":1}"#,
                r#"f.yaml, document 2 (line 7) {"b":"--- no marker\n"}"#,
                r#"f.yaml, document 3 (line 9) {"c":3}"#,
            ]
        );
        assert_eq!(places("\u{feff}\n# nothing\n%YAML 1.2\n---\n"), [""; 0]);
    }

    #[test]
    fn items_of_lists_are_documents() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [{"a": 1}, {"b": 2}]}).to_string();
        let expected = [
            r#"f.yaml, document 1 (line 1), item 1 {"a":1}"#,
            r#"f.yaml, document 1 (line 1), item 2 {"b":2}"#,
        ];
        assert_eq!(places(&list), expected);
        assert_eq!(places("- a: 1\n- {b: 2}\n"), expected);
    }

    #[test]
    fn a_document_that_does_not_parse_is_named_with_its_line() {
        for (text, expected) in [
            (
                "a: 1\n---\n\nb:\n  - c\n  d: [\n",
                "f.yaml, document 2 (line 4) does not parse [E-INPUT]\ncause: line ",
            ),
            ("a: 1\na: 2\n", "cause: line 2: duplicate mapping key: a\n"),
            (
                "apiVersion: v1\nkind: A\n\napiVersion: v1\nkind: B\n",
                "cause: line 4: duplicate mapping key: apiVersion: is a line of --- missing before it?\n\
                 try:   YAML or JSON, with the documents of a file separated by lines of ---",
            ),
        ] {
            let failure = split("f.yaml", text).unwrap_err().to_string();
            assert!(failure.contains(expected), "{failure}");
        }
        let failure = split("f.yaml", "a: 1\n---\n\nb:\n  - c\n  d: [\n")
            .unwrap_err()
            .to_string();
        let line: usize = failure.split("cause: line ").nth(1).unwrap()[..1]
            .parse()
            .unwrap();
        assert!((5..=7).contains(&line), "{failure}");
    }

    #[test]
    fn a_directory_is_its_files_by_name() {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("b.yml", "b: 2"),
            ("a.yaml", "a: 1"),
            ("c.json", "{\"c\": 3}"),
            ("d.txt", "d: 4"),
        ] {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        std::fs::create_dir(home.path().join("inner.yaml")).unwrap();
        let documents = read(&[home.path().to_owned()]).unwrap();
        let values: Vec<String> = documents
            .iter()
            .map(|document| document.value.to_string())
            .collect();
        assert_eq!(values, [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#]);
        let empty = tempfile::tempdir().unwrap();
        let failure = read(&[empty.path().to_owned()]).unwrap_err().to_string();
        assert!(failure.contains("has no document [E-INPUT]"), "{failure}");
        let failure = read(&[home.path().join("no.yaml")]).unwrap_err().to_string();
        assert!(failure.contains("no.yaml cannot be read [E-INPUT]"), "{failure}");
    }
}
