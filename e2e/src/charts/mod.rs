//! Helm charts, read and rendered without Helm: enough to hold `charts/` against the binaries, the definitions and an API
//! server in every test run.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`template`] | renders the subset of Helm's templates that the charts keep to, and refuses everything else |
//! | [`values`] | merges values as Helm does, and reads the comments of `values.yaml` |
//! | [`schema`] | validates values against `values.schema.json` |
//! | [`rights`] | makes the Roles of a chart, and their table for people, of the table of rights of its binary |
//! | [`generated`] | compares what is generated with what is there, or writes it |

pub mod generated;
pub mod rights;
pub mod schema;
pub mod template;
pub mod values;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use template::Templates;

/// The namespace of every release here.
pub const NAMESPACE: &str = "roundhouse-system";

/// `charts/` of the repository.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts")
}

/// `Chart.yaml`, as far as charts use it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Version of the chart format.
    pub api_version: String,
    /// Name of the chart.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// Version of what it installs.
    pub app_version: String,
    /// Versions of Kubernetes that it can be installed on.
    pub kube_version: String,
}

/// A chart, as it is in its directory.
#[derive(Debug)]
pub struct Chart {
    /// Its directory.
    pub directory: PathBuf,
    /// `Chart.yaml`.
    pub metadata: Metadata,
    /// `values.yaml`.
    pub values: Value,
    /// The text of `values.yaml`.
    pub values_text: String,
    /// `values.schema.json`.
    pub schema: Value,
    /// Its templates.
    pub templates: Templates,
    /// `ci/NAME-values.yaml`, by name; the default has no values and is not among them.
    pub ci: BTreeMap<String, Value>,
}

/// Text as one YAML value.
///
/// # Errors
/// It is no YAML, or more than one document.
pub fn yaml(text: &str) -> Result<Value> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    Ok(serde_saphyr::from_str_with_options(text, options)?)
}

/// The documents of a text; those without content are left out.
///
/// # Errors
/// It is no YAML.
pub fn documents(text: &str) -> Result<Vec<Value>> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let all: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}

/// The files of a directory in the order of their names.
///
/// # Errors
/// The directory cannot be read.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

impl Chart {
    /// Reads the chart in `charts/<name>`.
    ///
    /// # Errors
    /// A file is missing, is not what its name says, or has a template outside of the subset.
    pub fn load(name: &str) -> Result<Chart> {
        let directory = directory().join(name);
        let values_text = read(&directory.join("values.yaml"))?;
        let mut templates = Templates::default();
        for path in files(&directory.join("templates"))? {
            templates.add(&format!("{name}/{}", file_name(&path)), &read(&path)?)?;
        }
        let mut ci = BTreeMap::new();
        for path in files(&directory.join("ci"))? {
            let file = file_name(&path);
            let name = file.strip_suffix("-values.yaml");
            let name = name.with_context(|| format!("ci/{file} is not named NAME-values.yaml"))?;
            ci.insert(name.to_owned(), yaml(&read(&path)?).context(file.clone())?);
        }
        Ok(Chart {
            metadata: serde_json::from_value(yaml(&read(&directory.join("Chart.yaml"))?)?)?,
            values: yaml(&values_text).context("values.yaml")?,
            schema: serde_json::from_str(&read(&directory.join("values.schema.json"))?)?,
            values_text,
            templates,
            ci,
            directory,
        })
    }

    /// The default and the values of `ci/`, by name.
    pub fn cases(&self) -> BTreeMap<&str, Value> {
        let given = self
            .ci
            .iter()
            .map(|(name, values)| (name.as_str(), values.clone()));
        given.chain([("default", json!({}))]).collect()
    }

    /// What the templates make of `given` on top of the chart's values, by file, `NOTES.txt` included; the release is named
    /// `release` and is in [`NAMESPACE`].
    ///
    /// # Errors
    /// The values are not those of the schema, or a template cannot be rendered.
    pub fn render(&self, release: &str, given: &Value) -> Result<BTreeMap<String, String>> {
        let values = values::merge(&self.values, given);
        let problems = schema::problems(&self.schema, &values);
        ensure!(problems.is_empty(), "values: {}", problems.join("; "));
        let root = Map::from_iter([
            ("Values".to_owned(), values),
            (
                "Release".to_owned(),
                json!({"Name": release, "Namespace": NAMESPACE, "Service": "Helm"}),
            ),
            (
                "Chart".to_owned(),
                json!({
                    "Name": self.metadata.name,
                    "Version": self.metadata.version,
                    "AppVersion": self.metadata.app_version,
                }),
            ),
        ]);
        self.templates.render(&Value::Object(root))
    }

    /// The objects of [`Chart::render`], without the definitions in `crds/`.
    ///
    /// # Errors
    /// As [`Chart::render`], or what came out is no YAML.
    pub fn objects(&self, release: &str, given: &Value) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for (file, text) in self.render(release, given)? {
            if file.ends_with(".yaml") {
                objects.extend(documents(&text).with_context(|| format!("{file}:\n{text}"))?);
            }
        }
        Ok(objects)
    }
}

/// The object of a kind whose name ends so.
///
/// # Errors
/// There is none.
pub fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> Result<&'a Value> {
    let is = |object: &&Value| {
        object["kind"] == kind
            && object["metadata"]["name"]
                .as_str()
                .is_some_and(|own| own.ends_with(name))
    };
    objects
        .iter()
        .find(is)
        .with_context(|| format!("no {kind} {name} was rendered"))
}
