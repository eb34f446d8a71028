//! A case: which files, which fleet, what was before, and what is expected.

use super::expect::Expect;
use crate::cli::{
    Failure,
    documents::{self, Document, Place},
    inventory, tenancy,
};
use crate::tenancy::{Rules, Tenancy};
use jiff::Timestamp;
use roundhouse_api::cluster::Cluster;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// A case that was read.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) place: Place,
    /// Where it starts in its file.
    pub(super) line: usize,
    pub(super) documents: Vec<Document>,
    pub(super) clusters: Vec<Cluster>,
    pub(super) previous: Vec<Previous>,
    pub(super) at: Option<Timestamp>,
    /// What Applications may contain, and what Namespaces among the files allow.
    pub(super) rules: Rules,
    pub(super) expect: Expect,
}

/// What one rule had on the clusters before.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Previous {
    #[serde(default)]
    pub(super) application: Option<String>,
    pub(super) step: String,
    pub(super) workload: String,
    #[serde(default = "first_rule")]
    pub(super) rule: String,
    pub(super) clusters: BTreeMap<String, u32>,
}

fn first_rule() -> String {
    "rule-0".to_owned()
}

/// A case as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    files: Vec<PathBuf>,
    #[serde(default)]
    applications: Vec<Value>,
    inventory: Inventory,
    #[serde(default)]
    previous: Vec<Previous>,
    #[serde(default)]
    at: Option<Timestamp>,
    #[serde(default)]
    tenancy: Option<Tenancy>,
    expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Inventory {
    File(PathBuf),
    Clusters(Vec<Value>),
}

/// Reads the cases of a file.
///
/// # Errors
/// The file or one that it names cannot be read; a field that cases do not have, or a case that expects nothing, or errors that any message would pass. The
/// message names file, document and line.
///
/// `tenancy` is that of cases that name none.
pub(super) fn read(file: &Path, tenancy: Option<Tenancy>) -> Result<Vec<Case>, Failure> {
    let directory = file.parent().unwrap_or(Path::new(""));
    let documents = documents::read(&[file.to_owned()])?;
    documents
        .into_iter()
        .map(|document| of_document(document, directory, tenancy))
        .collect()
}

fn of_document(
    Document { value, place }: Document,
    directory: &Path,
    tenancy: Option<Tenancy>,
) -> Result<Case, Failure> {
    let refused = |cause: String| {
        Failure::new("E-TEST", format!("{place} is no test"))
            .because(cause)
            .advise("name, files or applications, inventory and expect; roundhouse test --help shows a case")
    };
    let written: Written = serde_json::from_value(value).map_err(|error| refused(error.to_string()))?;
    if written.expect.is_empty() {
        let cause =
            "it expects nothing, so that it could not fail: give placements, unplaced, bundles or errors";
        return Err(refused(cause.to_owned()));
    }
    if let Some(cause) = vacuous(written.expect.errors.as_deref()) {
        return Err(refused(cause));
    }
    if written.files.is_empty() && written.applications.is_empty() {
        return Err(refused("it has neither files nor applications".to_owned()));
    }
    let beside = |path: &PathBuf| directory.join(path);
    let files: Vec<PathBuf> = written.files.iter().map(beside).collect();
    let mut documents = documents::read(&files)?;
    documents.extend(inline(written.applications, &place));
    let rules = (written.tenancy.or(tenancy)).map(|tenancy| tenancy::of_documents(tenancy, &mut documents));
    let clusters = match written.inventory {
        Inventory::File(file) => inventory::read(&directory.join(file))?,
        Inventory::Clusters(list) => inventory::clusters(inline(list, &place).collect())?,
    };
    Ok(Case {
        name: written.name,
        line: place.line,
        documents,
        clusters,
        previous: written.previous,
        at: written.at,
        rules: rules.unwrap_or_default(),
        expect: written.expect,
        place,
    })
}

/// Why these parts of a message could not be missing from one.
fn vacuous(errors: Option<&[String]>) -> Option<String> {
    let parts = errors?;
    if parts.is_empty() {
        return Some(
            "expect.errors is empty, so that any refusal would pass: give parts of the message, or leave it out"
                .to_owned(),
        );
    }
    let index = parts.iter().position(|part| part.trim().is_empty())?;
    Some(format!(
        "expect.errors[{index}] is empty, so that any message would pass: give a part of the message"
    ))
}

/// Objects that are written in the case itself.
fn inline(values: Vec<Value>, place: &Place) -> impl Iterator<Item = Document> {
    let place = place.clone();
    values
        .into_iter()
        .enumerate()
        .map(move |(index, value)| Document {
            value,
            place: Place {
                item: Some(index + 1),
                ..place.clone()
            },
        })
}
