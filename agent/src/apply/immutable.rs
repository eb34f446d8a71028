//! Immutable: what a member says of fields that may not change, and whether an object may be deleted and made again for
//! it; pure.

use crate::object::ObjectKey;
use kube::core::Status;
use roundhouse_api::bundle::UpdateStrategyType;
use roundhouse_patch::field::FieldPath;
use serde_json::Value;

/// How Kubernetes words it ("k8s.io/kubernetes/pkg/apis/*/validation", lower case), and rules of custom definitions
/// after its example.
const WORDS: [&str; 7] = [
    "immutable",
    "may not be changed",
    "may not change",
    "cannot be changed",
    "cannot change",
    "updates to ",
    "may not be updated",
];

/// The fields that a message names in one outcome, at most.
const MAX_PATHS: usize = 5;

/// A field that the member does not let change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The field as the member names it: `spec.template`.
    pub(crate) field: String,
    /// What below it may change all the same (`spec.replicas`), as far as the message says so.
    allowed: Vec<String>,
}

/// What a refused write says of immutable fields; empty unless nothing else is wrong with it: what is invalid would be
/// refused as a new object too.
pub(crate) fn refusals(status: &Status) -> Vec<Refusal> {
    if status.code != 422 {
        return Vec::new();
    }
    let causes = status
        .details
        .as_ref()
        .map_or(&[][..], |details| details.causes.as_slice());
    if causes.is_empty() {
        return refusal(&status.message, bare_field(&status.message))
            .into_iter()
            .collect();
    }
    let refused = causes.iter().map(|cause| refusal(&cause.message, &cause.field));
    refused.collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// The field of a message without causes: `… is invalid: spec.selector: Invalid value: …`.
fn bare_field(message: &str) -> &str {
    let causes = message
        .split_once("is invalid: ")
        .map_or(message, |(_, causes)| causes);
    let field = causes.split_once(':').map_or("", |(field, _)| field);
    if field.contains(' ') { "" } else { field }
}

fn refusal(message: &str, field: &str) -> Option<Refusal> {
    let lower = message.to_lowercase();
    WORDS.iter().any(|words| lower.contains(words)).then(|| Refusal {
        field: field.to_owned(),
        allowed: allowed(message, field),
    })
}

/// The names in quotes after "other than": `'replicas', 'ordinals'` of a StatefulSet, whole paths of a Pod.
fn allowed(message: &str, field: &str) -> Vec<String> {
    let Some((_, list)) = message.split_once("other than") else {
        return Vec::new();
    };
    let quoted = list.split(['\'', '`']).skip(1).step_by(2);
    quoted
        .map(|name| {
            if name.starts_with(field) {
                name.to_owned()
            } else {
                format!("{field}.{name}")
            }
        })
        .collect()
}

/// On what terms an object may be deleted and made again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permit<'a> {
    pub(crate) strategy: UpdateStrategyType,
    /// `recreateFields`.
    pub(crate) fields: &'a [FieldPath],
}

/// Whether the object may be deleted and made again so that these fields change. Under `Recreate` it may, unless it
/// holds what cannot be made again (a namespace, a definition, a claim of storage): then, as under any other strategy,
/// each field must be listed. A listed path covers a refused field and what is below it; a refusal that only names
/// `spec` is covered if everything that changes there is.
pub(crate) fn may_recreate(
    permit: Permit<'_>,
    key: &ObjectKey,
    refused: &[Refusal],
    live: &Value,
    wanted: &Value,
) -> bool {
    if permit.strategy == UpdateStrategyType::Recreate && !holds_others(key) {
        return !refused.is_empty();
    }
    !refused.is_empty()
        && refused
            .iter()
            .all(|refusal| covers(permit.fields, refusal, live, wanted))
}

fn holds_others(key: &ObjectKey) -> bool {
    matches!(
        (key.group.as_str(), key.kind.as_str()),
        ("", "Namespace" | "PersistentVolumeClaim" | "PersistentVolume")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
    )
}

fn covers(fields: &[FieldPath], refusal: &Refusal, live: &Value, wanted: &Value) -> bool {
    let covered = |location: &str| {
        fields
            .iter()
            .any(|path| path.covers(wanted, location) || path.covers(live, location))
    };
    let Some(location) = FieldPath::parse(&refusal.field)
        .ok()
        .and_then(|path| path.pointer())
    else {
        return false;
    };
    if covered(&location) {
        return true;
    }
    let allowed: Vec<FieldPath> = refusal
        .allowed
        .iter()
        .filter_map(|path| FieldPath::parse(path).ok())
        .collect();
    let is_allowed = |changed: &str| {
        allowed
            .iter()
            .any(|path| path.covers(wanted, changed) || path.covers(live, changed))
    };
    let mut changed = Vec::new();
    let at = |document: &Value| document.pointer(&location).cloned().unwrap_or_default();
    differences(&at(live), &at(wanted), location.clone(), &mut changed);
    changed.retain(|changed| !is_allowed(changed));
    !changed.is_empty() && changed.iter().all(|changed| covered(changed))
}

/// The locations at which two documents differ, as JSON pointers.
fn differences(live: &Value, wanted: &Value, at: String, out: &mut Vec<String>) {
    let below = |token: &str| format!("{at}/{}", token.replace('~', "~0").replace('/', "~1"));
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            for (name, value) in wanted {
                differences(live.get(name).unwrap_or(&Value::Null), value, below(name), out);
            }
            let gone = live.keys().filter(|name| !wanted.contains_key(*name));
            out.extend(gone.map(|name| below(name)));
        }
        (Value::Array(live), Value::Array(wanted)) if live.len() == wanted.len() => {
            for (place, (live, wanted)) in live.iter().zip(wanted).enumerate() {
                differences(live, wanted, below(&place.to_string()), out);
            }
        }
        (live, wanted) if live == wanted => {}
        _ => out.push(at),
    }
}

/// What a person should know.
pub(crate) fn message(key: &ObjectKey, refused: &[Refusal], strategy: UpdateStrategyType) -> String {
    let fields: Vec<&str> = refused.iter().map(|refusal| refusal.field.as_str()).collect();
    let shown = fields
        .iter()
        .take(MAX_PATHS)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    let more = match fields.len().saturating_sub(MAX_PATHS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let advice = if strategy == UpdateStrategyType::Recreate {
        "deleting it would take with it what it holds: list the field in updateStrategy.recreateFields to do so"
    } else {
        "take the change back, or let the object be deleted and made again with updateStrategy.type Recreate or by \
         listing the field in updateStrategy.recreateFields"
    };
    format!("{key}: the cluster does not let {shown}{more} change; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const STATEFUL_SET: &str = "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', \
        'template', 'updateStrategy' and 'minReadySeconds' are forbidden";

    fn status(causes: &[(&str, &str)]) -> Status {
        let cause = |(field, message): &(&str, &str)| json!({"field": field, "message": message});
        let causes: Vec<Value> = causes.iter().map(cause).collect();
        let status = json!({"code": 422, "message": "Thing \"a\" is invalid", "details": {"causes": causes}});
        serde_json::from_value(status).unwrap()
    }

    fn fields(status: &Status) -> Vec<String> {
        refusals(status)
            .into_iter()
            .map(|refusal| refusal.field)
            .collect()
    }

    #[test]
    fn how_kubernetes_says_it() {
        for (field, message) in [
            (
                "spec.selector",
                "Invalid value: {\"a\": \"b\"}: field is immutable",
            ),
            (
                "spec.clusterIPs[0]",
                "Invalid value: [\"1\"]: may not change once set",
            ),
            ("value", "Forbidden: may not be changed in an update."),
            ("spec", STATEFUL_SET),
            ("parameters", "Forbidden: updates to parameters are forbidden."),
            (
                "spec",
                "Forbidden: spec is immutable after creation except resources.requests",
            ),
            ("roleRef", "Invalid value: {}: cannot change roleRef"),
            (
                "spec",
                "Forbidden: pod updates may not change fields other than `spec.tolerations`",
            ),
            ("data", "Forbidden: field is immutable when `immutable` is set"),
        ] {
            assert_eq!(fields(&status(&[(field, message)])), [field], "{message}");
        }
    }

    #[test]
    fn what_is_invalid_too_is_not_helped_by_another_object() {
        let immutable = ("spec.selector", "field is immutable");
        let invalid = (
            "spec.replicas",
            "Invalid value: -1: must be greater than or equal to 0",
        );
        assert_eq!(fields(&status(&[immutable, invalid])), Vec::<String>::new());
        let mut other = status(&[immutable]);
        other.code = 400;
        assert_eq!(fields(&other), Vec::<String>::new());
        // A server that gives no causes.
        let mut bare = status(&[]);
        for (message, expected) in [
            (
                "Job.batch \"a\" is invalid: spec.template: Invalid value: x: field is immutable",
                &["spec.template"][..],
            ),
            ("the field is immutable", &[""]),
            ("bad", &[]),
        ] {
            message.clone_into(&mut bare.message);
            assert_eq!(fields(&bare), expected, "{message}");
        }
    }

    #[test]
    fn when_an_object_is_made_again() {
        use UpdateStrategyType::{Recreate, ServerSideApply, Update};
        let job = |image: &str, suspend: bool| json!({"spec": {"suspend": suspend, "template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        let (live, wanted) = (job("i:1", false), job("i:2", true));
        let template = ("spec.template", "field is immutable");
        let whole = ("spec", "spec is immutable");
        let key = |group: &str, kind: &str| ObjectKey {
            group: group.into(),
            kind: kind.into(),
            ..ObjectKey::default()
        };
        let any = key("batch", "Job");
        for (strategy, listed, key, refused, expected) in [
            (Recreate, &[][..], &any, template, true),
            (Update, &[], &any, template, false),
            (Update, &["spec.template"], &any, template, true),
            (ServerSideApply, &["/spec/template"], &any, template, true),
            (Update, &[".spec"], &any, template, true),
            (Update, &["*"], &any, template, true),
            (Update, &["spec.selector"], &any, template, false),
            (
                Update,
                &["spec.template.spec.containers[*].image"],
                &any,
                template,
                true,
            ),
            (
                Update,
                &["spec.template.spec.containers[name=c].command"],
                &any,
                template,
                false,
            ),
            (Update, &["spec.template"], &any, whole, false),
            (Update, &["spec.template", "spec.suspend"], &any, whole, true),
            (Recreate, &[], &key("", "PersistentVolumeClaim"), whole, false),
            (
                Recreate,
                &["spec"],
                &key("", "PersistentVolumeClaim"),
                whole,
                true,
            ),
            (Recreate, &[], &key("", "Namespace"), whole, false),
        ] {
            let listed: Vec<FieldPath> = listed
                .iter()
                .map(|path| FieldPath::parse(path).unwrap())
                .collect();
            let permit = Permit {
                strategy,
                fields: &listed,
            };
            let refused = refusals(&status(&[refused]));
            assert_eq!(
                may_recreate(permit, key, &refused, &live, &wanted),
                expected,
                "{strategy:?} {listed:?} {key} {refused:?}"
            );
        }
        let permit = Permit {
            strategy: Recreate,
            fields: &[],
        };
        assert!(!may_recreate(permit, &any, &[], &live, &wanted));
    }

    #[test]
    fn a_stateful_set_is_made_again_for_the_listed_field_alone() {
        let set = |replicas: u32, service: &str, size: &str| json!({"spec": {"replicas": replicas, "serviceName": service, "volumeClaimTemplates": [{"size": size}]}});
        let live = set(1, "s", "1Gi");
        let listed = [FieldPath::parse("spec.volumeClaimTemplates").unwrap()];
        let permit = Permit {
            strategy: UpdateStrategyType::Update,
            fields: &listed,
        };
        let refused = refusals(&status(&[("spec", STATEFUL_SET)]));
        for (wanted, expected) in [
            (set(1, "s", "2Gi"), true),
            // Replicas may change anyway.
            (set(3, "s", "2Gi"), true),
            (set(3, "other", "2Gi"), false),
            (set(1, "other", "1Gi"), false),
        ] {
            let key = ObjectKey::default();
            assert_eq!(
                may_recreate(permit, &key, &refused, &live, &wanted),
                expected,
                "{wanted}"
            );
        }
    }

    #[test]
    fn the_message_names_the_fields_and_what_to_do() {
        let many: Vec<(String, &str)> = (0..7)
            .map(|n| (format!("spec.f{n}"), "field is immutable"))
            .collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(field, text)| (field.as_str(), *text)).collect();
        let key = ObjectKey {
            kind: "Job".into(),
            name: "a".into(),
            ..ObjectKey::default()
        };
        let text = message(&key, &refusals(&status(&many)), UpdateStrategyType::Update);
        assert!(
            text.starts_with("Job a: ") && text.contains("spec.f4 and 2 more"),
            "{text}"
        );
        assert!(
            text.contains("recreateFields") && text.contains("Recreate"),
            "{text}"
        );
    }
}
