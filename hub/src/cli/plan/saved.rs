//! A saved plan: the Applications as they were written, and a digest of every object of the hub that the plan depends on.
//! `roundhouse apply` applies it only while all of them are as they were, and before the clock alone decides otherwise.
//!
//! The file holds what the user's own files hold, Secrets included, and nothing of the hub but digests. It is readable by
//! its owner only.

use crate::{
    cli::{
        Failure,
        documents::{self, Place},
        proposals::Proposed,
        snapshot::{ABSENT, Inputs},
    },
    plan::Counts,
};
use jiff::Timestamp;
use roundhouse_api::hash;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, io, path::Path};

/// Version of the format.
const API_VERSION: &str = "plan.roundhouse.dev/v1";
const KIND: &str = "SavedPlan";
/// Objects that moved and are named at most.
const MAX_MOVED: usize = 8;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    /// Version of the binary that wrote it: another one may decide otherwise.
    roundhouse: String,
    /// Over everything below.
    sha256: String,
    summary: Summary,
    moment: Moment,
    applications: Vec<Value>,
    inputs: Inputs,
}

/// Bundles of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Summary {
    pub(in crate::cli) add: usize,
    pub(in crate::cli) change: usize,
    pub(in crate::cli) destroy: usize,
}

/// When a plan was made, and for how long the clock does not matter to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Moment {
    pub(in crate::cli) at: Timestamp,
    /// When the next toleration of a taint ends that placement looks at; `None` if none does.
    pub(in crate::cli) until: Option<Timestamp>,
}

/// A saved plan that was read.
#[derive(Debug)]
pub(in crate::cli) struct Saved {
    pub(in crate::cli) summary: Summary,
    pub(in crate::cli) applications: Vec<documents::Document>,
    moment: Moment,
    inputs: Inputs,
}

/// Writes a plan to a new file of mode 0600, or over an earlier plan. Returns its sha256.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(
    path: &Path,
    proposed: &[Proposed],
    inputs: &Inputs,
    counts: Counts,
    moment: Moment,
) -> Result<String, Failure> {
    let mut file = File {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        roundhouse: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: String::new(),
        summary: Summary {
            add: counts.add,
            change: counts.change,
            destroy: counts.destroy,
        },
        moment,
        applications: proposed.iter().map(|one| one.object.clone()).collect(),
        inputs: inputs.clone(),
    };
    file.sha256 = sha256(&file);
    let written = serde_json::to_string_pretty(&file)
        .map_err(io::Error::other)
        .and_then(|text| roundhouse_apiserver::write_private(path, &(text + "\n")));
    written.map_err(|error| {
        Failure::new(
            "E-OUTPUT",
            format!("the plan was not saved to {}", path.display()),
        )
        .because(error)
        .advise("a directory that exists and that you may write to")
    })?;
    Ok(file.sha256)
}

fn sha256(file: &File) -> String {
    hash::of_value(&json!({
        "apiVersion": file.api_version, "kind": file.kind, "roundhouse": file.roundhouse,
        "summary": file.summary, "moment": file.moment, "applications": file.applications, "inputs": file.inputs,
    }))
}

/// Reads a saved plan.
///
/// # Errors
/// It cannot be read, is no saved plan or one of another version, or was changed since it was written.
pub(in crate::cli) fn read(path: &Path) -> Result<Saved, Failure> {
    let text = documents::text(path)?;
    let name = path.display();
    let refused = |cause: String| {
        Failure::new("E-PLAN", format!("{name} is no saved plan"))
            .because(cause)
            .advise(format!(
                "roundhouse plan -f FILE --out {name}, to save one; apply -f {name}, if it holds Applications"
            ))
    };
    let value: Value =
        serde_json::from_str(&text).map_err(|error| refused(format!("it is no JSON: {error}")))?;
    let field = |name: &str| {
        value
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if (field("apiVersion").as_str(), field("kind").as_str()) != (API_VERSION, KIND) {
        return Err(refused(format!(
            "its apiVersion and kind are not {API_VERSION} {KIND}"
        )));
    }
    let file: File = serde_json::from_value(value).map_err(|error| refused(error.to_string()))?;
    if file.roundhouse != env!("CARGO_PKG_VERSION") {
        let version = env!("CARGO_PKG_VERSION");
        return Err(refused(format!(
            "roundhouse {} wrote it, and this is {version}, which may decide otherwise",
            file.roundhouse
        )));
    }
    if file.sha256 != sha256(&file) {
        return Err(refused(
            "it was changed since it was saved: its sha256 does not hold".to_owned(),
        ));
    }
    let place = |index: usize| Place {
        file: name.to_string(),
        number: 1,
        line: 1,
        item: Some(index + 1),
    };
    let applications = file.applications.into_iter().enumerate();
    Ok(Saved {
        summary: file.summary,
        moment: file.moment,
        applications: applications
            .map(|(index, value)| documents::Document {
                value,
                place: place(index),
            })
            .collect(),
        inputs: file.inputs,
    })
}

impl Saved {
    /// The digest of an object when the plan was made, [`ABSENT`] if there was none.
    pub(in crate::cli) fn input(&self, object: &str) -> &str {
        self.inputs.get(object).map_or(ABSENT, String::as_str)
    }

    /// What would be decided otherwise at `at` by the clock alone; `None` if nothing.
    pub(in crate::cli) fn expired(&self, at: Timestamp) -> Option<String> {
        let until = self.moment.until.filter(|until| *until <= at)?;
        Some(format!(
            "a taint was tolerated until {until}, and the plan was made at {}: clusters may be placed otherwise now",
            self.moment.at
        ))
    }

    /// What of the hub is not as it was when the plan was made: one line each, sorted, bounded. Empty: all is as it was.
    pub(in crate::cli) fn moved(&self, now: &Inputs) -> Vec<String> {
        let mut moved: BTreeMap<&String, &str> = BTreeMap::new();
        for (object, digest) in &self.inputs {
            match now.get(object) {
                Some(same) if same == digest => {}
                Some(other) if other == ABSENT => drop(moved.insert(object, "is gone")),
                Some(_) if digest == ABSENT => drop(moved.insert(object, "is new")),
                Some(_) => drop(moved.insert(object, "has changed")),
                None => drop(moved.insert(object, "is gone")),
            }
        }
        let new = now.keys().filter(|object| !self.inputs.contains_key(*object));
        moved.extend(new.map(|object| (object, "is new")));
        let mut lines: Vec<String> = moved
            .iter()
            .take(MAX_MOVED)
            .map(|(object, how)| format!("{object} {how}"))
            .collect();
        if moved.len() > MAX_MOVED {
            lines.push(format!("… and {} more", moved.len() - MAX_MOVED));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn inputs(of: &[(&str, &str)]) -> Inputs {
        of.iter()
            .map(|(object, digest)| ((*object).to_owned(), (*digest).to_owned()))
            .collect()
    }

    const FOR_EVER: Moment = Moment {
        at: Timestamp::UNIX_EPOCH,
        until: None,
    };

    #[test]
    fn a_plan_holds_until_a_toleration_ends() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("p.plan");
        let second = |second| Timestamp::from_second(second).unwrap();
        let saved = |until| {
            let moment = Moment {
                at: second(10),
                until,
            };
            let sha256 = write(&path, &[], &Inputs::new(), Counts::default(), moment).unwrap();
            (sha256, read(&path).unwrap())
        };
        let ((bound, plan), (free, for_ever)) = (saved(Some(second(300))), saved(None));
        assert_ne!(bound, free, "it is part of what is signed");
        assert_eq!(plan.expired(second(299)), None);
        let expired = "a taint was tolerated until 1970-01-01T00:05:00Z, and the plan was made at 1970-01-01T00:00:10Z: clusters may be placed otherwise now";
        assert_eq!(plan.expired(second(300)).as_deref(), Some(expired));
        assert_eq!(for_ever.expired(Timestamp::MAX), None);
    }

    #[test]
    fn a_plan_is_bound_to_what_it_was_made_from() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("p.plan");
        let before = inputs(&[
            ("Application default/web", "absent"),
            ("Cluster c1", "1"),
            ("Cluster c2", "2"),
        ]);
        let counts = Counts {
            add: 2,
            change: 1,
            destroy: 0,
        };
        let sha256 = write(&path, &[], &before, counts, FOR_EVER).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(write(&path, &[], &before, counts, FOR_EVER).unwrap(), sha256);
        let saved = read(&path).unwrap();
        assert_eq!(
            saved.summary,
            Summary {
                add: 2,
                change: 1,
                destroy: 0
            }
        );
        assert_eq!(saved.moved(&before), [""; 0]);
        let after = inputs(&[
            ("Application default/web", "x"),
            ("Cluster c1", "7"),
            ("Cluster c3", "3"),
        ]);
        assert_eq!(
            saved.moved(&after),
            [
                "Application default/web is new",
                "Cluster c1 has changed",
                "Cluster c2 is gone",
                "Cluster c3 is new"
            ]
        );
        let many: Inputs = (0..20)
            .map(|n| (format!("Cluster n{n:02}"), String::new()))
            .collect();
        assert_eq!(saved.moved(&many).last().unwrap(), "… and 15 more");
    }

    #[test]
    fn what_is_no_plan_or_was_changed_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("p.plan");
        let before = inputs(&[("Cluster c1", "1")]);
        write(&path, &[], &before, Counts::default(), FOR_EVER).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for (text, cause) in [
            ("a: 1".to_owned(), "it is no JSON"),
            (
                "{}".to_owned(),
                "its apiVersion and kind are not plan.roundhouse.dev/v1 SavedPlan",
            ),
            (
                text.replace("\"1\"", "\"2\""),
                "it was changed since it was saved: its sha256 does not hold",
            ),
            (
                text.replace("\"kind\"", "\"more\": 1, \"kind\""),
                "unknown field `more`",
            ),
            (
                text.replace(
                    concat!("\"roundhouse\": \"", env!("CARGO_PKG_VERSION")),
                    "\"roundhouse\": \"0.0.0",
                ),
                "roundhouse 0.0.0 wrote it",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let failure = read(&path).unwrap_err().to_string();
            assert!(
                failure.contains(&format!("p.plan is no saved plan [E-PLAN]\ncause: {cause}")),
                "{failure}"
            );
        }
    }
}
