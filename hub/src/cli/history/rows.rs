//! The revisions of an application as a list. Pure.

use super::changes::changes;
use crate::{
    application::history::delivered_at,
    cli::{age::ago, columns},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use roundhouse_api::{application::ApplicationStatus, revision::ApplicationRevision};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Characters of a hash that are shown.
const HASH: usize = 12;
/// Changes of a revision that a row shows without `-o wide`.
const CHANGES: usize = 3;

/// One revision.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) hash: String,
    pub(super) created: Option<Time>,
    pub(super) delivered: Option<Timestamp>,
    /// `current`, `delivering`, `delivered`, in that order.
    pub(super) marks: Vec<&'static str>,
    /// Clusters that hold a Bundle of it.
    pub(super) clusters: usize,
    pub(super) changes: Vec<String>,
}

/// Makes the rows, the oldest first. `clusters`: revision → clusters that hold a Bundle of it.
pub(super) fn rows(
    revisions: &[ApplicationRevision],
    status: &ApplicationStatus,
    clusters: &BTreeMap<String, usize>,
) -> Vec<Row> {
    let mut sorted: Vec<&ApplicationRevision> = revisions.iter().collect();
    sorted.sort_by_key(|revision| revision.spec.revision);
    let latest = status.latest_revision.as_ref().map(|latest| latest.name.as_str());
    let run = status.workflow.as_ref();
    let mut rows = Vec::new();
    let mut before: Option<&Value> = None;
    for revision in sorted {
        let name = revision.name_any();
        let is_current = latest == Some(name.as_str());
        let under_way =
            run.is_some_and(|run| !run.finished && run.app_revision.as_deref() == Some(name.as_str()));
        let delivered = delivered_at(revision);
        let marks = [
            (is_current, "current"),
            (under_way, "delivering"),
            (delivered.is_some() && !under_way, "delivered"),
        ];
        rows.push(Row {
            number: revision.spec.revision,
            hash: revision.spec.hash.clone(),
            created: revision.metadata.creation_timestamp.clone(),
            delivered,
            marks: marks
                .into_iter()
                .filter(|(is, _)| *is)
                .map(|(_, mark)| mark)
                .collect(),
            clusters: clusters.get(&name).copied().unwrap_or(0),
            changes: match before {
                None => vec!["first of those that are kept".to_owned()],
                Some(before) => changes(before, &revision.spec.application),
            },
            name,
        });
        before = Some(&revision.spec.application);
    }
    rows
}

/// As columns.
pub(super) fn draw(rows: &[Row], wide: bool, now: Timestamp) -> String {
    let mut header = vec!["REVISION", "AGE", "HASH", "STATE", "CLUSTERS"];
    if wide {
        header.extend(["NAME", "DELIVERED"]);
    }
    header.push("CHANGES");
    let cells = |row: &Row| {
        let shown = if wide { row.changes.len() } else { CHANGES };
        let mut changes = row
            .changes
            .iter()
            .take(shown)
            .cloned()
            .collect::<Vec<_>>()
            .join("; ");
        if row.changes.len() > shown {
            changes.push_str(&format!("; … and {} more", row.changes.len() - shown));
        }
        let mut cells = vec![
            row.number.to_string(),
            ago(row.created.as_ref().map(|at| at.0), now),
            row.hash.chars().take(HASH).collect(),
            if row.marks.is_empty() {
                "-".to_owned()
            } else {
                row.marks.join(",")
            },
            row.clusters.to_string(),
        ];
        if wide {
            cells.push(row.name.clone());
            cells.push(row.delivered.map_or("-".to_owned(), |at| ago(Some(at), now)));
        }
        cells.push(changes);
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    columns::draw(&header, &rows, &["REVISION", "CLUSTERS"])
}

/// As data.
pub(super) fn structured(rows: &[Row]) -> Value {
    rows.iter()
        .map(|row| {
            json!({
                "revision": row.number,
                "name": row.name,
                "hash": row.hash,
                "created": row.created,
                "deliveredAt": row.delivered.map(|at| at.to_string()),
                "current": row.marks.contains(&"current"),
                "delivering": row.marks.contains(&"delivering"),
                "clusters": row.clusters,
                "changes": row.changes,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::{names::annotation, revision::ApplicationRevisionSpec};

    fn revision(number: u64, image: &str, delivered: Option<&str>) -> ApplicationRevision {
        let spec = ApplicationRevisionSpec {
            revision: number,
            hash: format!("{number}0ff5e7d8c9b0a1f2e3d4c5b6a79880"),
            application: json!({"components": [{"name": "web", "type": "worker", "properties": {"image": image}}]}),
            ..ApplicationRevisionSpec::default()
        };
        let mut revision = ApplicationRevision::new(&format!("web-v{number}"), spec);
        revision.metadata.creation_timestamp =
            Some(Time(format!("2026-03-01T11:{number:02}:00Z").parse().unwrap()));
        if let Some(delivered) = delivered {
            revision
                .annotations_mut()
                .insert(annotation::DELIVERED.to_owned(), delivered.to_owned());
        }
        revision
    }

    #[test]
    fn the_revisions_in_columns() {
        let revisions = [
            revision(3, "nginx:1.30", None),
            revision(1, "nginx:1.28", Some("2026-03-01T11:01:30Z")),
            revision(2, "nginx:1.29", Some("2026-03-01T11:02:30Z")),
        ];
        let status: ApplicationStatus = serde_json::from_value(json!({
            "latestRevision": {"name": "web-v3", "revision": 3, "revisionHash": "x"},
            "workflow": {"appRevision": "web-v3", "steps": []}}))
        .unwrap();
        let clusters = BTreeMap::from([("web-v2".to_owned(), 2), ("web-v3".to_owned(), 3)]);
        let rows = rows(&revisions, &status, &clusters);
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        insta::assert_snapshot!("table", draw(&rows, false, now));
        insta::assert_snapshot!("wide", draw(&rows, true, now));
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&structured(&rows)).unwrap());
    }
}
