//! The Applications, Placements and ComponentDefinitions among the documents that a user names.

use super::{
    Failure,
    documents::{self, Document, Place},
    metadata,
};
use kube::api::ApiResource;
use roundhouse_api::{
    application::{Application, Violation, check_application_name, validate, validate_placement},
    definition::{ComponentDefinition, ComponentDefinitionSpec},
    names::check_dns_label,
    placement::Placement,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";
/// Longest name of a namespace, and of a Placement (a DNS label).
const MAX_LABEL: usize = 63;
/// At most this many violations are shown.
const MAX_VIOLATIONS: usize = 20;
/// What an object may have at its top.
const FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];

/// What a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Before what is divided by it.
    ComponentDefinition,
    /// Before the Applications that refer to it.
    Placement,
    Application,
}

impl Kind {
    /// As `kind` says it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::ComponentDefinition => "ComponentDefinition",
            Kind::Placement => "Placement",
            Kind::Application => "Application",
        }
    }

    /// The resource of the hub.
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Kind::ComponentDefinition => ApiResource::erase::<ComponentDefinition>(&()),
            Kind::Placement => ApiResource::erase::<Placement>(&()),
            Kind::Application => ApiResource::erase::<Application>(&()),
        }
    }

    /// The kind of these words, if it is one of them.
    pub(super) fn of(api_version: &str, kind: &str) -> Option<Kind> {
        [Kind::ComponentDefinition, Kind::Placement, Kind::Application]
            .into_iter()
            .find(|known| {
                let resource = known.resource();
                (resource.api_version.as_str(), resource.kind.as_str()) == (api_version, kind)
            })
    }
}

/// An object as it was written.
#[derive(Debug, Clone)]
pub(super) struct Proposed {
    pub(super) kind: Kind,
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
        format!("{} {}/{}", self.kind.word(), self.namespace, self.name)
    }
}

/// Reads and validates the objects of files with the functions that the controller validates with:
/// definitions and Placements first, then by namespace and name. `namespace` is the one of objects that name none.
///
/// # Errors
/// Nothing is there; a document is none of them, or is one that the controller would not accept. The message names file,
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
    let mut proposed: BTreeMap<(Kind, String, String), Proposed> = BTreeMap::new();
    for document in documents {
        let one = of_document(document, namespace)?;
        let key = (one.kind, one.namespace.clone(), one.name.clone());
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
    let (kind, name) = identify(&value).map_err(|reason| {
        Failure::new("E-INPUT", format!("{place} is nothing that can be planned or applied"))
            .because(reason)
            .advise("Application or ComponentDefinition of core.oam.dev/v1beta1, or Placement of roundhouse.dev/v1alpha1, with metadata.name and spec")
    })?;
    metadata::is_legal(&value).map_err(|why| refused(&place, &format!("{} {name}", kind.word()), &[why]))?;
    let namespace = namespace_of(&value, namespace).map_err(|misplaced| {
        let what = match &misplaced {
            Misplaced::Elsewhere { own, asked } => {
                format!(
                    "{place}: {} {own}/{name} is not in namespace {asked}",
                    kind.word()
                )
            }
            Misplaced::Illegal(_) => {
                format!("{place}: {} {name} has no namespace that can be", kind.word())
            }
        };
        Failure::new("E-INPUT", what)
            .because(misplaced.to_string())
            .advise(misplaced.advice())
    })?;
    if let Some(map) = value.as_object_mut() {
        map.remove("status");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".to_owned(), Value::from(namespace.as_str()));
        }
    }
    let proposed = Proposed {
        kind,
        namespace,
        name,
        object: value,
        place,
    };
    let (name, spec) = (&proposed.name, proposed.spec());
    let (named, verdict) = match kind {
        Kind::Application => (check_application_name(name), validate(spec).map(drop)),
        Kind::Placement => (
            check_dns_label("Placement name", name, MAX_LABEL),
            validate_placement(spec).map(drop),
        ),
        Kind::ComponentDefinition => (
            check_dns_label("ComponentDefinition name", name, MAX_LABEL),
            validate_definition(spec),
        ),
    };
    named.map_err(|error| not_accepted(&proposed, &[format!("metadata.name: {error}")]))?;
    verdict.map_err(|violations| not_accepted(&proposed, &lines(&violations)))?;
    Ok(proposed)
}

fn validate_definition(spec: &Value) -> Result<(), Vec<Violation>> {
    let read = serde_json::from_value::<ComponentDefinitionSpec>(spec.clone());
    read.map(drop).map_err(|error| {
        vec![Violation {
            path: "spec".to_owned(),
            reason: error.to_string(),
        }]
    })
}

fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(ToString::to_string).collect()
}

/// Says what the controller would refuse an object for.
pub(super) fn not_accepted(proposed: &Proposed, violations: &[String]) -> Failure {
    refused(&proposed.place, &proposed.title(), violations)
}

fn refused(place: &Place, title: &str, violations: &[String]) -> Failure {
    let what = format!("{place}: {title} is not accepted");
    let mut failure = Failure::new("E-REFUSED", what);
    for violation in violations.iter().take(MAX_VIOLATIONS) {
        failure = failure.because(violation.as_str());
    }
    if violations.len() > MAX_VIOLATIONS {
        failure = failure.because(format!("… and {} more", violations.len() - MAX_VIOLATIONS));
    }
    failure.advise("mend what is named; nothing was sent to a hub")
}

/// Namespaces and names of one kind.
pub(super) fn keys(proposed: &[Proposed], kind: Kind) -> BTreeSet<(String, String)> {
    let of_kind = proposed.iter().filter(|one| one.kind == kind);
    of_kind
        .map(|one| (one.namespace.clone(), one.name.clone()))
        .collect()
}

/// What an object is, and its name; or why it is nothing that is known here.
fn identify(value: &Value) -> Result<(Kind, String), String> {
    let map = value.as_object().ok_or("it is no object")?;
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let kind = match (text("/apiVersion"), text("/kind")) {
        (Some(version), Some(kind)) => {
            Kind::of(version, kind).ok_or_else(|| format!("it is a {kind} of {version}"))?
        }
        _ => return Err("it has no apiVersion and kind".to_owned()),
    };
    if let Some(unknown) = map.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(format!(
            "it has no field {unknown} (known: {})",
            FIELDS.join(", ")
        ));
    }
    match value.pointer("/metadata/name") {
        None | Some(Value::Null) => Err("it has no metadata.name: give it one".to_owned()),
        Some(Value::String(name)) => Ok((kind, name.clone())),
        Some(other) => Err(format!("metadata.name {}", metadata::no_text(other))),
    }
}

/// Why an object has no namespace that it can be in.
#[derive(Debug, thiserror::Error)]
pub(super) enum Misplaced {
    #[error("its metadata.namespace is {own}, and --namespace says {asked}: leave one of them out")]
    Elsewhere { own: String, asked: String },
    #[error("{0}")]
    Illegal(String),
}

impl Misplaced {
    fn advice(&self) -> String {
        match self {
            Misplaced::Elsewhere { own, asked } => format!(
                "the same without --namespace, for {own}; or without metadata.namespace in the file, for {asked}"
            ),
            Misplaced::Illegal(_) => {
                "another metadata.namespace, or another --namespace where the file names none".to_owned()
            }
        }
    }
}

/// The namespace of an object, `namespace` being that of objects that name none; or why it cannot be.
pub(super) fn namespace_of(value: &Value, namespace: Option<&str>) -> Result<String, Misplaced> {
    let own = value.pointer("/metadata/namespace").and_then(Value::as_str);
    let own = own.filter(|own| !own.is_empty());
    if let (Some(own), Some(asked)) = (own, namespace)
        && own != asked
    {
        let (own, asked) = (own.to_owned(), asked.to_owned());
        return Err(Misplaced::Elsewhere { own, asked });
    }
    let namespace = own.or(namespace).unwrap_or(DEFAULT_NAMESPACE);
    check_dns_label("namespace", namespace, MAX_LABEL)
        .map_err(|error| Misplaced::Illegal(error.to_string()))?;
    Ok(namespace.to_owned())
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
    fn objects_are_sorted_and_have_a_namespace() {
        let text = format!(
            "{VALID}---{}---\napiVersion: roundhouse.dev/v1alpha1\nkind: Placement\nmetadata: {{name: z}}\nspec: {{placement: [{{replicas: 1}}]}}\n",
            VALID.replace("{name: web}", "{name: app, namespace: shop}")
        );
        let proposed = of(&text, None).unwrap();
        let titles: Vec<String> = proposed.iter().map(Proposed::title).collect();
        assert_eq!(
            titles,
            [
                "Placement default/z",
                "Application default/web",
                "Application shop/app"
            ]
        );
        assert_eq!(proposed[1].object["metadata"]["namespace"], "default");
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
                "apiVersion: roundhouse.dev/v1alpha1\nkind: Placement\nmetadata: {name: z}\nspec: {rules: []}\n".to_owned(),
                "error: app.yaml, document 1 (line 1): Placement default/z is not accepted [E-REFUSED]\ncause: spec",
            ),
            (
                format!("{VALID}---\n# again\n{VALID}"),
                "error: app.yaml, document 2 (line 11): Application default/web is there twice [E-INPUT]\n\
                 cause: it is at app.yaml, document 1 (line 2) too",
            ),
            (
                format!("{VALID}---\napiVersion: v1\nkind: ConfigMap\n"),
                "error: app.yaml, document 2 (line 9) is nothing that can be planned or applied [E-INPUT]\n\
                 cause: it is a ConfigMap of v1",
            ),
            (
                VALID.replace("spec:", "sepc:"),
                "error: app.yaml, document 1 (line 2) is nothing that can be planned or applied [E-INPUT]\n\
                 cause: it has no field sepc (known: apiVersion, kind, metadata, spec, status)",
            ),
            (
                VALID.replace("name: web}", "name: Web}"),
                "error: app.yaml, document 1 (line 2): Application default/Web is not accepted [E-REFUSED]\n\
                 cause: metadata.name: application name \"Web\" is not a DNS label",
            ),
            ("a: 1".to_owned(), "cause: it has no apiVersion and kind"),
            (
                VALID.replace("name: web}", "name: 7}"),
                "cause: metadata.name is 7, not a text: put it in quotes",
            ),
            (
                format!("{VALID}---\n{}", VALID.replace("{name: web}", "{name: b, labels: {team: 7}}")),
                "error: app.yaml, document 2 (line 10): Application b is not accepted [E-REFUSED]\n\
                 cause: metadata.labels: label team is 7, not a text: put it in quotes\n\
                 try:   mend what is named",
            ),
            (
                VALID.replace("{name: web}", "{name: web, lables: {team: a}}"),
                "cause: it has no field metadata.lables (known: annotations, ",
            ),
            (
                VALID.replace("{name: web}", "{name: web, namespace: 7}"),
                "cause: metadata.namespace is 7, not a text: put it in quotes",
            ),
        ] {
            let failure = of(&text, None).unwrap_err();
            assert!(failure.contains(expected), "{failure}\n has not\n{expected}");
        }
        let named = VALID.replace("{name: web}", "{name: web, namespace: a}");
        assert_eq!(
            of(&named, Some("b")).unwrap_err(),
            "error: app.yaml, document 1 (line 2): Application a/web is not in namespace b [E-INPUT]\n\
             cause: its metadata.namespace is a, and --namespace says b: leave one of them out\n\
             try:   the same without --namespace, for a; or without metadata.namespace in the file, for b"
        );
        for failure in [
            of(VALID, Some("B")).unwrap_err(),
            of(&named.replace("namespace: a", "namespace: B"), None).unwrap_err(),
        ] {
            assert!(
                failure.contains("Application web has no namespace that can be [E-INPUT]\ncause: namespace \"B\" is not a DNS label"),
                "{failure}"
            );
        }
    }
}
