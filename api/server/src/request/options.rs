//! Which options a verb takes (`ValidateListOptions`, `ValidateCreateOptions`, … in Kubernetes).

use super::{Query, VersionMatch, unsupported};
use crate::{
    error::{ApiError, Cause},
    managed::MAX_MANAGER,
};

/// The media type of server-side apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// Checks the options of a request with this verb and, for a patch, of this media type.
///
/// # Errors
/// 422 about the options object of the verb, with one cause for each option that is not acceptable.
pub(crate) fn check_options(query: &Query, verb: &str, media: &str) -> Result<(), ApiError> {
    let (kind, fields, mut causes): (_, &[&str], _) = match verb {
        "list" => ("ListOptions", &[], list(query)),
        "watch" => ("ListOptions", &[], watch(query)),
        "create" => ("CreateOptions", &["dryRun", "fieldValidation"], manager(query)),
        "update" => ("UpdateOptions", &["dryRun", "fieldValidation"], manager(query)),
        "patch" => (
            "PatchOptions",
            &["dryRun", "fieldValidation"],
            patch(query, media),
        ),
        "delete" => ("DeleteOptions", &["dryRun", "propagationPolicy"], delete(query)),
        "deletecollection" => {
            refuse("ListOptions", list(query))?;
            ("DeleteOptions", &["dryRun", "propagationPolicy"], delete(query))
        }
        _ => return Ok(()),
    };
    causes.extend(
        query
            .unsupported
            .iter()
            .filter(|c| fields.contains(&c.field.as_str()))
            .cloned(),
    );
    refuse(kind, causes)
}

/// 422 about an options object, if there is anything wrong with it.
pub(crate) fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    let parts: Vec<String> = causes
        .iter()
        .map(|c| format!("{}: {}", c.field, c.message))
        .collect();
    let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}", parts.join(", "));
    let mut error = ApiError::new(422, "Invalid", message).about("meta.k8s.io", kind, "");
    error.details.causes = causes;
    Err(error)
}

/// What is wrong with two ways of saying what becomes of the dependents.
pub(crate) fn both_policies() -> Cause {
    Cause::invalid(
        "propagationPolicy",
        "Invalid value: orphanDependents and deletionPropagation cannot be both set",
    )
}

fn forbidden(field: &str, why: &str) -> Cause {
    Cause::forbidden(field, format!("Forbidden: {why}"))
}

fn list(query: &Query) -> Vec<Cause> {
    let mut out = vec![];
    let mut refuse = |why| out.push(forbidden("resourceVersionMatch", why));
    if query.version_match.is_some() {
        if query.resource_version.is_empty() {
            refuse("resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if !query.continue_token.is_empty() {
            refuse("resourceVersionMatch is forbidden with continue");
        }
        if query.version_match == Some(VersionMatch::Exact) && query.resource_version == "0" {
            refuse("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
    }
    if query.version_match == Some(VersionMatch::Unknown) {
        out.push(unknown_match(&["Exact", "NotOlderThan", ""]));
    }
    if query.send_initial_events.is_some() {
        out.push(forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    out
}

fn watch(query: &Query) -> Vec<Cause> {
    let mut out = vec![];
    let mut refuse = |why| out.push(forbidden("resourceVersionMatch", why));
    let not_older = query.version_match == Some(VersionMatch::NotOlderThan);
    match query.send_initial_events {
        Some(_) if !not_older => {
            refuse("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        None if query.version_match.is_some() => {
            refuse("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        _ => {}
    }
    if query.version_match.is_some() && !query.continue_token.is_empty() {
        refuse("resourceVersionMatch is forbidden with continue");
    }
    if query.version_match.is_some() && !not_older {
        out.push(unknown_match(&["NotOlderThan"]));
    }
    out
}

fn unknown_match(supported: &[&str]) -> Cause {
    unsupported("resourceVersionMatch", "", supported)
}

fn manager(query: &Query) -> Vec<Cause> {
    let manager = &query.field_manager;
    let mut out = vec![];
    if manager.len() > MAX_MANAGER {
        let why = format!("Too long: may not be more than {MAX_MANAGER} bytes");
        out.push(Cause::too_long("fieldManager", why));
    }
    if manager.chars().any(char::is_control) {
        out.push(Cause::invalid(
            "fieldManager",
            "Invalid value: should only contain printable characters",
        ));
    }
    out
}

fn patch(query: &Query, media: &str) -> Vec<Cause> {
    let mut out = manager(query);
    if media == APPLY && query.field_manager.is_empty() {
        let why = "Required value: is required for apply patch";
        out.push(Cause::required("fieldManager", why));
    }
    if media != APPLY && query.force.is_some() {
        out.push(forbidden("force", "may not be specified for non-apply patch"));
    }
    out
}

fn delete(query: &Query) -> Vec<Cause> {
    if query.orphan_dependents.is_some() && query.propagation.is_some() {
        vec![both_policies()]
    } else {
        vec![]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind and fields of what is refused.
    fn refused(verb: &str, query: &str) -> String {
        let query = Query::parse(query).unwrap();
        match check_options(&query, verb, "application/merge-patch+json") {
            Ok(()) => "fine".to_owned(),
            Err(error) => {
                let fields: Vec<&str> = error.details.causes.iter().map(|c| c.field.as_str()).collect();
                format!("{} {}", error.details.kind, fields.join(" "))
            }
        }
    }

    #[test]
    fn what_each_verb_takes() {
        let long = format!("fieldManager={}", "a".repeat(129));
        let table = [
            ("list", "resourceVersionMatch=Exact&resourceVersion=5", "fine"),
            (
                "list",
                "resourceVersionMatch=NotOlderThan&resourceVersion=0",
                "fine",
            ),
            (
                "list",
                "resourceVersionMatch=Exact",
                "ListOptions resourceVersionMatch",
            ),
            (
                "list",
                "resourceVersionMatch=Exact&resourceVersion=0",
                "ListOptions resourceVersionMatch",
            ),
            (
                "list",
                "resourceVersionMatch=Sometimes&resourceVersion=5",
                "ListOptions resourceVersionMatch",
            ),
            (
                "list",
                "resourceVersionMatch=NotOlderThan&resourceVersion=5&continue=x",
                "ListOptions resourceVersionMatch",
            ),
            ("list", "sendInitialEvents=true", "ListOptions sendInitialEvents"),
            (
                "watch",
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                "fine",
            ),
            (
                "watch",
                "sendInitialEvents=false",
                "ListOptions resourceVersionMatch",
            ),
            (
                "watch",
                "resourceVersionMatch=NotOlderThan",
                "ListOptions resourceVersionMatch",
            ),
            ("create", "dryRun=Some", "CreateOptions dryRun"),
            ("create", "propagationPolicy=Up", "fine"),
            ("update", "fieldValidation=Loud", "UpdateOptions fieldValidation"),
            ("create", &long, "CreateOptions fieldManager"),
            ("create", "fieldManager=a%0Ab", "CreateOptions fieldManager"),
            ("patch", "force=true", "PatchOptions force"),
            (
                "delete",
                "propagationPolicy=Up",
                "DeleteOptions propagationPolicy",
            ),
            (
                "delete",
                "propagationPolicy=Orphan&orphanDependents=true",
                "DeleteOptions propagationPolicy",
            ),
            ("deletecollection", "dryRun=Some", "DeleteOptions dryRun"),
            ("get", "dryRun=Some", "fine"),
        ];
        for (verb, query, want) in table {
            assert_eq!(refused(verb, query), want, "{verb} {query}");
        }
    }
}
