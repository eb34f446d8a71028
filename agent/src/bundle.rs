//! A Bundle as the agent holds it between passes: the identity, and the spec as bytes. A parsed spec weighs many times
//! as much; it exists only while a pass runs.

use crate::apply::fence::Write;
use crate::watch::resume;
use kube::core::DynamicObject;
use roundhouse_api::bundle::{ApplicationRef, BundleSpec, BundleStatus, OLD_GENERATION, PROGRESSING};
use roundhouse_api::condition;
use roundhouse_api::names::{bundle_name, step_of_bundle};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// A Bundle on the hub.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) resource_version: String,
    /// Whether it has a deletion timestamp.
    pub(crate) deleting: bool,
    /// Whether it is being deleted on evidence, and not paused: its objects go.
    pub(crate) going: bool,
    /// Uid of the application, if dispatch wrote it: what the parts of one application have in common. The Bundle of a
    /// step's object is no part.
    pub(crate) application: Option<String>,
    /// The application revision.
    pub(crate) revision: Option<String>,
    /// Hash of its manifests, as the hub gives it.
    pub(crate) hash: Option<String>,
    /// What all parts of the application on this cluster are together; see [`BundleSpec::parts_hash`].
    pub(crate) parts: Option<String>,
    /// Fencing epoch of the hub that wrote it.
    pub(crate) epoch: Option<i64>,
    /// The status on the hub; `None` if there is none or it does not parse.
    pub(crate) status: Option<BundleStatus>,
    /// Fingerprint of its metadata.
    pub(crate) metadata: u64,
    /// A list, which is of the latest state, has it older than it was known to be: the hub was restored.
    pub(crate) put_back: bool,
    spec: Box<[u8]>,
    /// Fingerprint of `spec`.
    fingerprint: u64,
}

/// Which content of which Bundle. A hub that was restored from a backup counts its generations again, so that the
/// generation alone does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    uid: String,
    generation: i64,
    fingerprint: u64,
}

impl Held {
    /// Takes what is needed of the object that a watch delivered.
    pub(crate) fn of(object: DynamicObject) -> Self {
        let mut data = object.data;
        let mut take = |field: &str| data.get_mut(field).map(Value::take).unwrap_or_default();
        let (spec, status) = (take("spec"), take("status"));
        let metadata = object.metadata;
        let print = resume::fingerprint(&metadata);
        let alone = metadata
            .name
            .as_deref()
            .is_some_and(|name| step_of_bundle(name).is_some());
        let spec_bytes = serde_json::to_vec(&spec).unwrap_or_default();
        Held {
            name: metadata.name.unwrap_or_default(),
            put_back: false,
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or(0),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            going: metadata.deletion_timestamp.is_some()
                && spec.get("deletion").is_some_and(|deletion| !deletion.is_null())
                && spec.get("paused") != Some(&Value::Bool(true)),
            application: crate::object::text(&spec, "/applicationRef/uid")
                .filter(|_| !alone)
                .map(str::to_owned),
            revision: crate::object::text(&spec, "/revision").map(str::to_owned),
            hash: crate::object::text(&spec, "/hash").map(str::to_owned),
            parts: crate::object::text(&spec, "/partsHash").map(str::to_owned),
            epoch: spec.get("epoch").and_then(Value::as_i64),
            status: serde_json::from_value(status).ok().flatten(),
            metadata: print,
            fingerprint: fingerprint(&spec_bytes),
            spec: spec_bytes.into_boxed_slice(),
        }
    }

    /// The spec.
    ///
    /// # Errors
    /// The hub's schema refuses most of what does not parse; a newer hub may know values that this agent does not.
    pub(crate) fn spec(&self) -> Result<BundleSpec, serde_json::Error> {
        serde_json::from_slice(&self.spec)
    }

    /// What [`Held::of`] makes the same of again, without the status. The resource version is one that is never the present
    /// one: a report that is sent on the strength of it asks first.
    pub(crate) fn document(&self) -> Vec<u8> {
        let metadata = serde_json::json!({"name": self.name, "uid": self.uid, "generation": self.generation,
            "resourceVersion": "1"});
        let mut document = format!("{{\"metadata\":{metadata},\"spec\":").into_bytes();
        document.extend_from_slice(&self.spec);
        document.push(b'}');
        document
    }

    /// Which write of which Bundle this is.
    pub(crate) fn write(&self) -> Write<'_> {
        Write {
            uid: &self.uid,
            version: &self.resource_version,
            epoch: self.epoch,
            generation: self.generation,
            ignored: self.is_ignored(),
        }
    }

    /// Whether its status says that an agent ignores it for something later that it has obeyed. Of which generation that was
    /// said does not matter: what somebody asks for on a restored hub waits like the rest of it. Each report about something
    /// else takes it off, and one that is made again begins without a status.
    fn is_ignored(&self) -> bool {
        let conditions = self.status.as_ref().map(|status| status.conditions.as_slice());
        let said = condition::get(conditions.unwrap_or_default(), PROGRESSING);
        said.is_some_and(|said| said.reason == OLD_GENERATION)
    }

    /// Which content this is.
    pub(crate) fn content(&self) -> Content {
        Content {
            uid: self.uid.clone(),
            generation: self.generation,
            fingerprint: self.fingerprint,
        }
    }

    /// Whether a pass over `other` would do something else than one over this: status writes and labels do not count.
    pub(crate) fn same_intent(&self, other: &Held) -> bool {
        self.deleting == other.deleting && self.content() == other.content() && self.spec == other.spec
    }
}

/// What is known about the Bundle of a name.
#[derive(Debug, Clone, Default)]
pub(crate) enum Presence {
    /// It is there.
    Present(std::sync::Arc<Held>),
    /// The hub said that it was deleted; this was its last state.
    Deleted(std::sync::Arc<Held>),
    /// It is missing from a list, or was never seen. That is no evidence of anything.
    #[default]
    Missing,
}

/// It only says whether two specs of one Bundle are the same.
fn fingerprint(spec: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    spec.hash(&mut hasher);
    hasher.finish()
}

/// `<namespace>.<app>` of `<namespace>.<app>.<part>`: neither namespaces nor applications have dots in their names. The
/// Bundle of a step's object is no part of anything, and keeps its name.
pub(crate) fn without_part(name: &str) -> &str {
    if step_of_bundle(name).is_some() {
        return name;
    }
    match name.match_indices('.').nth(1) {
        Some((at, _)) => name.get(..at).unwrap_or(name),
        None => name,
    }
}

/// Which part of its application a Bundle is, by its name; from 1.
pub(crate) fn part_number(name: &str) -> usize {
    let part = name.strip_prefix(without_part(name));
    let number = part.and_then(|part| part.strip_prefix('.')?.parse().ok());
    number.unwrap_or(1)
}

/// The owner in the marker of the objects of a Bundle that dispatch wrote: the parts of one application share one, and the
/// Bundle of a step's object is its own.
pub(crate) fn owner<'b>(name: &'b str, application: &ApplicationRef) -> Cow<'b, str> {
    match step_of_bundle(name) {
        Some(_) => Cow::Borrowed(name),
        None => Cow::Owned(bundle_name(&application.namespace, &application.name, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;
    use crate::watch::delivered::Delivered;
    use roundhouse_api::bundle::OLD_EPOCH;

    #[test]
    fn a_status_says_whether_its_bundle_is_ignored() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let status = |reason| report::held(3, Some(1), reason, "", None, now);
        for (status, expected) in [
            (None, false),
            (Some(BundleStatus::default()), false),
            (Some(status(OLD_GENERATION)), true),
            // Its epoch says so itself, until it gets another.
            (Some(status(OLD_EPOCH)), false),
            (Some(status("Paused")), false),
        ] {
            for generation in [3, 4] {
                let bundle = serde_json::json!({"metadata": {"name": "a", "generation": generation}, "status": status});
                let Delivered(bundle) = serde_json::from_value(bundle).unwrap();
                assert_eq!(Held::of(bundle).write().ignored, expected, "{status:?}");
            }
        }
    }

    #[test]
    fn parts_share_the_name_of_their_application() {
        for (name, expected) in [
            ("default.web", "default.web"),
            ("default.web.2", "default.web"),
            ("plain", "plain"),
            ("default.web.step.flags", "default.web.step.flags"),
        ] {
            assert_eq!(without_part(name), expected);
        }
    }
}
