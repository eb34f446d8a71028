//! The tenancy by which Applications are judged: of a hub, as it says itself, or of files.

use super::{
    Failure,
    documents::Document,
    hub::unreadable,
    proposals::{self, Kind, Proposed},
    terminal,
};
use crate::{
    render,
    run::APPLICATIONS,
    tenancy::{AllowList, Rules, Tenancy},
};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, Error, ResourceExt};
use roundhouse_api::{application::validate, names::annotation};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What somebody could read of a hub, or why not.
type Said<T> = Result<T, String>;

/// The rules of a hub for Applications in these namespaces; `given` counts in place of the tenancy that the hub says. Who
/// may not read them is told on stderr that nothing was judged.
///
/// # Errors
/// The hub does not answer.
pub(super) async fn of_hub(
    client: &Client,
    given: Option<Tenancy>,
    namespaces: BTreeSet<&String>,
) -> Result<Option<Rules>, Failure> {
    let tenancy = match given {
        Some(tenancy) => Ok(tenancy),
        None => said(client).await?,
    };
    let rules = match tenancy {
        Ok(tenancy) => rules(client, tenancy, namespaces).await?,
        Err(why) => Err(why),
    };
    if let Err(why) = &rules {
        terminal::tell(format_args!(
            "note: it is not judged whether the hub's tenancy admits this: {why}"
        ));
    }
    Ok(rules.ok())
}

/// What a hub says that its tenancy is.
async fn said(client: &Client) -> Result<Said<Tenancy>, Failure> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = match definitions.get_metadata_opt(APPLICATIONS).await {
        Ok(definition) => definition,
        Err(Error::Api(answer)) if answer.code == 403 => return Ok(Err(answer.message.clone())),
        Err(error) => return Err(unreadable("the definition of Applications", error)),
    };
    let word = definition.and_then(|definition| definition.annotations().get(annotation::TENANCY).cloned());
    Ok(match word.as_deref().map(|word| (word, Tenancy::of(word))) {
        Some((_, Some(tenancy))) => Ok(tenancy),
        Some((word, None)) => Err(format!("it is {word:?}, which this roundhouse does not know")),
        None => Err("no hub of this version has started there yet".to_owned()),
    })
}

/// The rules for Applications in these namespaces. Namespaces are read only where they matter.
async fn rules(
    client: &Client,
    tenancy: Tenancy,
    namespaces: BTreeSet<&String>,
) -> Result<Said<Rules>, Failure> {
    let mut rules = Rules {
        tenancy,
        allowed: BTreeMap::new(),
    };
    if tenancy == Tenancy::Open {
        return Ok(Ok(rules));
    }
    let api: Api<Namespace> = Api::all(client.clone());
    for name in namespaces {
        let namespace = match api.get_metadata_opt(name).await {
            Ok(namespace) => namespace,
            Err(Error::Api(answer)) if answer.code == 403 => return Ok(Err(answer.message.clone())),
            Err(error) => return Err(unreadable(&format!("what Namespace {name} allows"), error)),
        };
        if let Some(namespace) = namespace {
            rules
                .allowed
                .insert(name.clone(), AllowList::of(namespace.annotations()));
        }
    }
    Ok(Ok(rules))
}

/// The rules of files: their Namespaces, which are taken out of the documents.
pub(super) fn of_documents(tenancy: Tenancy, documents: &mut Vec<Document>) -> Rules {
    let mut allowed = BTreeMap::new();
    documents.retain(|document| {
        let text = |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str);
        let (Some("v1"), Some("Namespace"), Some(name)) =
            (text("/apiVersion"), text("/kind"), text("/metadata/name"))
        else {
            return true;
        };
        let annotations = document.value.pointer("/metadata/annotations").cloned();
        let annotations = annotations.and_then(|annotations| serde_json::from_value(annotations).ok());
        allowed.insert(name.to_owned(), AllowList::of(&annotations.unwrap_or_default()));
        false
    });
    Rules { tenancy, allowed }
}

/// Refuses what the hub would refuse.
///
/// # Errors
/// The first Application that contains what it may not, with everything in it that is refused.
pub(super) fn check(rules: &Rules, proposed: &[Proposed]) -> Result<(), Failure> {
    for one in proposed.iter().filter(|one| one.kind == Kind::Application) {
        // One that is not valid was refused when it was read.
        let Ok(valid) = validate(one.spec()) else { continue };
        let rendered = render::render(&one.namespace, &one.name, &valid);
        let variants = render::variants(&one.namespace, &one.name, &valid);
        let violations = rules.violations(&one.namespace, &valid, &rendered, &variants);
        if !violations.is_empty() {
            let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
            return Err(proposals::not_accepted(one, &lines));
        }
    }
    Ok(())
}
