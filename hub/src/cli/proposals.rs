//! The Applications among the documents that a user names.

use super::{
    Failure,
    documents::{self, Document, Place},
};
use kube::Resource;
use roundhouse_api::{
    application::{Application, check_application_name, validate},
    names::check_dns_label,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// Longest name of a namespace.
const MAX_NAMESPACE: usize = 63;
/// At most this many violations are shown.
const MAX_VIOLATIONS: usize = 20;

/// An Application as it was written.
#[derive(Debug, Clone)]
pub(super) struct Proposed {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The whole object, with its namespace, without status.
    pub(super) object: Value,
    pub(super) place: Place,
}

impl Proposed {
    /// `spec`, as written.
    pub(super) fn spec(&self) -> &Value {
        self.object.get("spec").unwrap_or(&Value::Null)
    }

    /// `Application default/web`.
    pub(super) fn title(&self) -> String {
        format!("Application {}/{}", self.namespace, self.name)
    }
}

/// Reads and validates the Applications of files, sorted by namespace and name, with the function that the controller
/// validates with. `namespace` is the one of objects that name none.
///
/// # Errors
/// Nothing is there; a document is no Application, or is one that the controller would not accept. The message names file,
/// document and line.
pub(super) fn read(files: &[PathBuf], namespace: Option<&str>) -> Result<Vec<Proposed>, Failure> {
    of_documents(documents::read(files)?, namespace)
}

/// The same, of documents that were read already.
///
/// # Errors
/// As [`read`].
pub(super) fn of_documents(
    documents: Vec<Document>,
    namespace: Option<&str>,
) -> Result<Vec<Proposed>, Failure> {
    let mut proposed: BTreeMap<(String, String), Proposed> = BTreeMap::new();
    for document in documents {
        let one = of_document(document, namespace)?;
        let key = (one.namespace.clone(), one.name.clone());
        if let Some(former) = proposed.get(&key) {
            let what = format!("{}: {} is there twice", one.place, one.title());
            return Err(Failure::new("E-INPUT", what)
                .because(format!("it is at {} too", former.place))
                .advise("one document for each object"));
        }
        proposed.insert(key, one);
    }
    Ok(proposed.into_values().collect())
}

fn of_document(
    Document { mut value, place }: Document,
    namespace: Option<&str>,
) -> Result<Proposed, Failure> {
    let (namespace, name) = identify(&value, namespace).map_err(|reason| {
        Failure::new("E-INPUT", format!("{place} is no Application"))
            .because(reason)
            .advise(
                "a document with apiVersion core.oam.dev/v1beta1, kind Application, metadata.name and spec",
            )
    })?;
    if let Some(map) = value.as_object_mut() {
        map.remove("status");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".to_owned(), Value::from(namespace.as_str()));
        }
    }
    let proposed = Proposed {
        namespace,
        name,
        object: value,
        place,
    };
    check_application_name(&proposed.name)
        .map_err(|error| not_accepted(&proposed, &[format!("metadata.name: {error}")]))?;
    validate(proposed.spec()).map_err(|violations| {
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        not_accepted(&proposed, &lines)
    })?;
    Ok(proposed)
}

/// Namespaces and names.
pub(super) fn keys(proposed: &[Proposed]) -> BTreeSet<(String, String)> {
    let key = |one: &Proposed| (one.namespace.clone(), one.name.clone());
    proposed.iter().map(key).collect()
}

/// Says what the controller would refuse an Application for.
pub(super) fn not_accepted(proposed: &Proposed, violations: &[String]) -> Failure {
    let what = format!("{}: {} is not accepted", proposed.place, proposed.title());
    let mut failure = Failure::new("E-REFUSED", what);
    for violation in violations.iter().take(MAX_VIOLATIONS) {
        failure = failure.because(violation.as_str());
    }
    if violations.len() > MAX_VIOLATIONS {
        failure = failure.because(format!("… and {} more", violations.len() - MAX_VIOLATIONS));
    }
    failure.advise("mend what is named; nothing was sent to a hub")
}

/// Namespace and name of an Application, or why it is none.
fn identify(value: &Value, namespace: Option<&str>) -> Result<(String, String), String> {
    let map = value.as_object().ok_or("it is no object")?;
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let (api_version, kind) = (Application::api_version(&()), Application::kind(&()));
    match (text("/apiVersion"), text("/kind")) {
        (Some(a), Some(k)) if a == api_version && k == kind => {}
        (Some(a), Some(k)) => return Err(format!("it is a {k} of {a}")),
        _ => return Err("it has no apiVersion and kind".to_owned()),
    }
    const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
    if let Some(unknown) = map.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(format!(
            "it has no field {unknown} (known: {})",
            FIELDS.join(", ")
        ));
    }
    let name = text("/metadata/name").ok_or("it has no metadata.name: give it one")?;
    let own = text("/metadata/namespace").filter(|own| !own.is_empty());
    if let (Some(own), Some(asked)) = (own, namespace)
        && own != asked
    {
        return Err(format!(
            "its namespace is {own}, and --namespace says {asked}: leave one of them out"
        ));
    }
    let namespace = own.or(namespace).unwrap_or(DEFAULT_NAMESPACE);
    check_dns_label("namespace", namespace, MAX_NAMESPACE)
        .map_err(|error| format!("metadata.namespace: {error}"))?;
    Ok((namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: web}
spec:
  components: [{name: web, type: worker, properties: {image: a}}]
  workflow: {steps: [{type: deploy, properties: {placement: [{replicas: 1}]}}]}
";

    fn of(text: &str, namespace: Option<&str>) -> Result<Vec<Proposed>, String> {
        let documents = documents::split("app.yaml", text).map_err(|failure| failure.to_string())?;
        of_documents(documents, namespace).map_err(|failure| failure.to_string())
    }

    #[test]
    fn applications_are_sorted_and_have_a_namespace() {
        let text = format!(
            "{VALID}---{}",
            VALID.replace("{name: web}", "{name: app, namespace: shop}")
        );
        let proposed = of(&text, None).unwrap();
        let titles: Vec<String> = proposed.iter().map(Proposed::title).collect();
        assert_eq!(titles, ["Application default/web", "Application shop/app"]);
        assert_eq!(proposed[0].object["metadata"]["namespace"], "default");
        assert_eq!(of(VALID, Some("shop")).unwrap()[0].namespace, "shop");
    }

    #[test]
    fn what_is_refused_is_named_with_its_place() {
        for (text, expected) in [
            (
                VALID.replace("replicas: 1", "replicas: 1, weight: 3"),
                "error: app.yaml, document 1 (line 2): Application default/web is not accepted [E-REFUSED]\n\
                 cause: spec.workflow.steps[0].properties.placement[0].weight: ",
            ),
            (
                format!("{VALID}---\n# again\n{VALID}"),
                "error: app.yaml, document 2 (line 11): Application default/web is there twice [E-INPUT]\n\
                 cause: it is at app.yaml, document 1 (line 2) too",
            ),
            (
                format!("{VALID}---\napiVersion: v1\nkind: ConfigMap\n"),
                "error: app.yaml, document 2 (line 9) is no Application [E-INPUT]\ncause: it is a ConfigMap of v1",
            ),
            (
                VALID.replace("spec:", "sepc:"),
                "error: app.yaml, document 1 (line 2) is no Application [E-INPUT]\n\
                 cause: it has no field sepc (known: apiVersion, kind, metadata, spec, status)",
            ),
            (
                VALID.replace("name: web}", "name: Web}"),
                "error: app.yaml, document 1 (line 2): Application default/Web is not accepted [E-REFUSED]\n\
                 cause: metadata.name: application name \"Web\" is not a DNS label",
            ),
            ("a: 1".to_owned(), "cause: it has no apiVersion and kind"),
        ] {
            let failure = of(&text, None).unwrap_err();
            assert!(failure.contains(expected), "{failure}\n has not\n{expected}");
        }
        let named = VALID.replace("{name: web}", "{name: web, namespace: a}");
        let failure = of(&named, Some("b")).unwrap_err();
        assert!(
            failure.contains("its namespace is a, and --namespace says b: leave one of them out"),
            "{failure}"
        );
    }
}
