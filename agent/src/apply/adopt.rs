//! Adopt: whose is an object that exists.

use crate::object;
use roundhouse_api::bundle::Adopt;
use roundhouse_api::names::annotation;
use serde_json::Value;

/// Whose an existing object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// Ours: it carries our marker, or the ledger knows its uid and nobody else has marked it.
    Ours,
    /// Nobody's, and the bundle says to take it.
    Adopt,
    /// Nobody's: to be taken only if nothing of what we render differs.
    AdoptIfEqual,
    /// Not ours to touch.
    Refuse(Refused),
}

/// Why an object is not ours to touch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the object belongs to bundle {owner}, not to {us}: remove it from one of them")]
    OwnedByAnotherBundle { owner: String, us: String },
    #[error("the object is controlled by {owner}: set allowCoOwnership to apply it for {us} all the same")]
    ControlledByThirdParty { owner: String, us: String },
    #[error(
        "the object exists and is not ours; adopt is Never: remove it, or set adopt to IfNoDiff or Always"
    )]
    NotAdopted,
    #[error(
        "the object exists, is not ours and differs in {paths}: set adopt to Always to take it over with our content"
    )]
    Differs { paths: String },
}

impl Refused {
    /// The reason in a condition.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Refused::OwnedByAnotherBundle { .. } => "OwnedByAnotherBundle",
            Refused::ControlledByThirdParty { .. } => "ControlledByThirdParty",
            Refused::NotAdopted => "NotAdopted",
            Refused::Differs { .. } => "AdoptionDiffers",
        }
    }
}

/// What the bundle and the ledger say about ownership of one object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    /// `<hub id>/<bundle>`, as the marker annotation carries it.
    pub(crate) marker: &'a str,
    /// Uid that the ledger recorded for the object.
    pub(crate) known_uid: Option<&'a str>,
    /// What to do with an object that is nobody's.
    pub(crate) adopt: Adopt,
    /// Whether a third party's controller may stand beside us.
    pub(crate) allow_co_ownership: bool,
}

/// Decides whose `live` is. An object that carries our marker is always ours again (a ledger may be lost); one that
/// was made again under the same name by someone else has another uid and no marker, and is nobody's.
pub(crate) fn adoption(live: &Value, claim: Claim<'_>) -> Adoption {
    match object::annotation(live, annotation::OWNED_BY) {
        Some(owner) if owner == claim.marker => return Adoption::Ours,
        Some(owner) if !owner.is_empty() => {
            return Adoption::Refuse(Refused::OwnedByAnotherBundle {
                owner: owner.to_owned(),
                us: claim.marker.to_owned(),
            });
        }
        _ => {}
    }
    if claim.known_uid.is_some() && object::uid(live) == claim.known_uid {
        return Adoption::Ours;
    }
    if let (Some(owner), false) = (controller(live), claim.allow_co_ownership) {
        return Adoption::Refuse(Refused::ControlledByThirdParty {
            owner,
            us: claim.marker.to_owned(),
        });
    }
    match claim.adopt {
        Adopt::Always => Adoption::Adopt,
        Adopt::IfNoDiff => Adoption::AdoptIfEqual,
        Adopt::Never => Adoption::Refuse(Refused::NotAdopted),
    }
}

/// Kind and name of the owner reference that says `controller: true`.
fn controller(live: &Value) -> Option<String> {
    let owners = live.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners
        .iter()
        .find(|o| o.get("controller").and_then(Value::as_bool) == Some(true))?;
    let read = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or("?");
    Some(format!("{} {}", read("kind"), read("name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(live: &Value, known_uid: Option<&str>, adopt: Adopt, allow_co_ownership: bool) -> String {
        match adoption(
            live,
            Claim {
                marker: "h/b",
                known_uid,
                adopt,
                allow_co_ownership,
            },
        ) {
            Adoption::Refuse(refused) => refused.reason().to_owned(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn whose_an_object_is() {
        let plain = json!({"metadata": {"uid": "1"}});
        let marked = |owner: &str| json!({"metadata": {"uid": "1", "annotations": {"roundhouse.dev/owned-by": owner}}});
        let controlled = json!({"metadata": {"uid": "1", "ownerReferences": [
            {"kind": "Note", "name": "n", "uid": "x"},
            {"kind": "Operator", "name": "op", "uid": "y", "controller": true}]}});
        let owned_only =
            json!({"metadata": {"uid": "1", "ownerReferences": [{"kind": "Note", "name": "n"}]}});
        for (live, known, adopt, co, expected) in [
            (&plain, None, Adopt::IfNoDiff, false, "AdoptIfEqual"),
            (&plain, None, Adopt::Always, false, "Adopt"),
            (&plain, None, Adopt::Never, false, "NotAdopted"),
            (&plain, Some("1"), Adopt::Never, false, "Ours"),
            (&plain, Some("2"), Adopt::Never, false, "NotAdopted"),
            (&marked("h/b"), None, Adopt::Never, false, "Ours"),
            (
                &marked("h/other"),
                Some("1"),
                Adopt::Always,
                true,
                "OwnedByAnotherBundle",
            ),
            (&marked(""), None, Adopt::Always, false, "Adopt"),
            (&controlled, None, Adopt::Always, false, "ControlledByThirdParty"),
            (&controlled, None, Adopt::Always, true, "Adopt"),
            (&controlled, Some("1"), Adopt::Always, false, "Ours"),
            (&owned_only, None, Adopt::Always, false, "Adopt"),
        ] {
            assert_eq!(
                check(live, known, adopt, co),
                expected,
                "{live} {known:?} {adopt:?} {co}"
            );
        }
    }

    #[test]
    fn a_refusal_names_both_owners() {
        let live = json!({"metadata": {"annotations": {"roundhouse.dev/owned-by": "h/other"}}});
        let claim = Claim {
            marker: "h/b",
            known_uid: None,
            adopt: Adopt::Always,
            allow_co_ownership: false,
        };
        let Adoption::Refuse(refused) = adoption(&live, claim) else {
            panic!("adopted")
        };
        let message = refused.to_string();
        assert!(
            message.contains("h/other") && message.contains("h/b"),
            "{message}"
        );
    }
}
