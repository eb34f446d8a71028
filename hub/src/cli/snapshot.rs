//! What a hub knows of some applications, read at once: the snapshot that plans are made against, and a digest of each
//! object in it, so that a plan can say later what has moved.

use super::{
    Failure,
    documents::Place,
    hub::{Reader, own_labels, unreadable},
    proposals::{self, Kind, Proposed},
    tenancy,
};
use crate::{
    application::Snapshot,
    plan::Dispatched,
    tenancy::{Rules, Tenancy},
};
use futures::{StreamExt, stream};
use kube::{Api, Client, ResourceExt, core::DynamicObject};
use roundhouse_api::{
    application::references, bundle::Bundle, cluster::Cluster, decision::Decision, hash, names::annotation,
    revision::ApplicationRevision,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Stands for an object that is not there.
pub(super) const ABSENT: &str = "absent";
/// Applications that are read at once.
const CONCURRENT: usize = 4;

/// Object → digest of what of it matters to a plan.
pub(super) type Inputs = BTreeMap<String, String>;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) snapshot: Snapshot,
    pub(super) dispatched: Dispatched,
    pub(super) inputs: Inputs,
    /// Applications on the hub that refer to a Placement that is proposed, and are not proposed themselves.
    pub(super) referring: Vec<Proposed>,
}

/// Reads what a hub knows of what is proposed, and of its fleet. `tenancy` is judged by in place of what the hub says.
///
/// # Errors
/// The hub cannot be read.
pub(super) async fn read(
    client: &Client,
    proposed: &[Proposed],
    tenancy: Option<Tenancy>,
) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    let mut applications = proposals::keys(proposed, Kind::Application);
    seen.referring = referring(Reader(client), proposed, &applications).await?;
    applications.extend(proposals::keys(&seen.referring, Kind::Application));
    let applications = &applications;
    let placements = &concerned(proposed, &seen.referring);
    let hub = Reader(client);
    hub.clusters(|cluster| seen.put_cluster(&cluster)).await?;
    hub.definitions(|written, read| {
        seen.note(Kind::ComponentDefinition, &written);
        if let Some(definition) = read {
            seen.snapshot.put_definition(&definition);
        }
    })
    .await?;
    let namespaces: BTreeSet<&String> = applications.iter().map(|(namespace, _)| namespace).collect();
    for namespace in namespaces {
        hub.placements(Some(namespace), |placement| {
            if placements.contains(&(placement.namespace().unwrap_or_default(), placement.name_any())) {
                seen.note(Kind::Placement, &placement);
            }
            seen.snapshot.put_placement(placement);
        })
        .await?;
        hub.decisions(Some(namespace), |decision| {
            let of = &decision.spec.application_ref;
            if applications.contains(&(of.namespace.clone(), of.name.clone())) {
                seen.note_decision(&decision);
            }
            seen.snapshot.put_decision(decision);
        })
        .await?;
    }
    let namespaces: BTreeSet<&String> = applications.iter().map(|(namespace, _)| namespace).collect();
    seen.govern(client, tenancy, namespaces).await?;
    // Each application by itself, a few at a time; what they have is put together in their order.
    let mut read = stream::iter(applications)
        .map(|(namespace, name)| of_application(client, namespace, name))
        .buffered(CONCURRENT);
    while let Some(one) = read.next().await {
        let (application, revisions, bundles) = one?;
        if let Some(application) = application {
            seen.note(Kind::Application, &application);
            seen.snapshot.put_application(application);
        }
        revisions
            .into_iter()
            .for_each(|revision| seen.snapshot.put_revision(revision));
        for bundle in bundles {
            seen.put_bundle(bundle);
        }
    }
    drop(read);
    for one in proposed {
        seen.inputs
            .entry(one.title())
            .or_insert_with(|| ABSENT.to_owned());
    }
    Ok(seen)
}

/// The Placements that are proposed, and all that the Applications refer to that are planned: others do not matter.
fn concerned(proposed: &[Proposed], referring: &[Proposed]) -> BTreeSet<(String, String)> {
    let mut placements = proposals::keys(proposed, Kind::Placement);
    let all = proposed.iter().chain(referring);
    for one in all.filter(|one| one.kind == Kind::Application) {
        let named = references(one.spec()).into_iter();
        placements.extend(named.map(|name| (one.namespace.clone(), name)));
    }
    placements
}

/// The Applications on the hub that refer to a proposed Placement, without those that are proposed themselves.
async fn referring(
    hub: Reader<'_>,
    proposed: &[Proposed],
    known: &BTreeSet<(String, String)>,
) -> Result<Vec<Proposed>, Failure> {
    let placements = proposals::keys(proposed, Kind::Placement);
    let namespaces: BTreeSet<&String> = placements.iter().map(|(namespace, _)| namespace).collect();
    let mut found = Vec::new();
    for namespace in namespaces {
        hub.applications(Some(namespace), |application| {
            let key = (namespace.clone(), application.name_any());
            let spec = application.data.get("spec").unwrap_or(&Value::Null);
            let refers = references(spec)
                .into_iter()
                .any(|name| placements.contains(&(namespace.clone(), name)));
            if refers && !known.contains(&key) && application.metadata.deletion_timestamp.is_none() {
                let place = Place {
                    file: "the hub".to_owned(),
                    number: 1,
                    line: 1,
                    item: None,
                };
                found.push(Proposed {
                    kind: Kind::Application,
                    namespace: key.0,
                    name: key.1,
                    object: json!({ "spec": spec }),
                    place,
                });
            }
        })
        .await?;
    }
    Ok(found)
}

type OfApplication = (Option<DynamicObject>, Vec<ApplicationRevision>, Vec<Bundle>);

async fn of_application(client: &Client, namespace: &str, name: &str) -> Result<OfApplication, Failure> {
    let resource = Kind::Application.resource();
    let applications: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let application = applications.get_opt(name).await;
    let application =
        application.map_err(|error| unreadable(&format!("Application {namespace}/{name}"), error))?;
    let labels = own_labels(namespace, name);
    let (mut revisions, mut bundles) = (Vec::new(), Vec::new());
    let hub = Reader(client);
    hub.revisions(Some(namespace), Some(&labels), |revision| {
        revisions.push(revision)
    })
    .await?;
    hub.bundles(Some(&labels), |bundle| bundles.push(bundle)).await?;
    Ok((application, revisions, bundles))
}

impl Seen {
    /// Sets the rules by which Applications in these namespaces are judged.
    async fn govern(
        &mut self,
        client: &Client,
        tenancy: Option<Tenancy>,
        namespaces: BTreeSet<&String>,
    ) -> Result<(), Failure> {
        let Some(rules) = tenancy::of_hub(client, tenancy, namespaces).await? else {
            return Ok(());
        };
        self.note_rules(&rules);
        self.snapshot.govern(rules);
        Ok(())
    }

    fn note_rules(&mut self, rules: &Rules) {
        let word = json!(rules.tenancy.word());
        self.inputs.insert("the hub's tenancy".to_owned(), digest(&word));
        for (namespace, allowed) in &rules.allowed {
            let title = format!("what Namespace {namespace} allows");
            self.inputs.insert(title, digest(&json!(allowed)));
        }
    }

    /// Takes a cluster in.
    pub(super) fn put_cluster(&mut self, cluster: &Cluster) {
        let status = cluster.status.clone().unwrap_or_default();
        // What placement looks at; heartbeats and versions come and go.
        let conditions: BTreeMap<_, _> = status.conditions.iter().map(|c| (&c.type_, &c.status)).collect();
        let facts = json!({
            "labels": cluster.labels(), "spec": cluster.spec, "taints": status.taints, "conditions": conditions,
            "capacity": status.capacity, "allocatable": status.allocatable,
            "deleting": cluster.metadata.deletion_timestamp.is_some(),
        });
        self.inputs
            .insert(format!("Cluster {}", cluster.name_any()), digest(&facts));
        self.snapshot.put_cluster(cluster);
    }

    fn put_bundle(&mut self, bundle: Bundle) {
        let title = format!(
            "Bundle {}/{}",
            bundle.namespace().unwrap_or_default(),
            bundle.name_any()
        );
        let metadata = &bundle.metadata;
        let state = json!([
            metadata.uid,
            metadata.generation,
            metadata.deletion_timestamp.is_some()
        ]);
        self.inputs.insert(title, digest(&state));
        self.dispatched.put(&bundle);
        self.snapshot.put_bundle(bundle);
    }

    fn note(&mut self, kind: Kind, object: &DynamicObject) {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        self.inputs
            .insert(format!("{} {namespace}/{name}", kind.word()), state_of(object));
    }

    fn note_decision(&mut self, decision: &Decision) {
        let title = format!(
            "Decision {}/{}",
            decision.namespace().unwrap_or_default(),
            decision.name_any()
        );
        let state = json!([decision.metadata.uid, decision.spec.hash, decision.spec.revision]);
        self.inputs.insert(title, digest(&state));
    }
}

/// The digest of what of an Application or a Placement matters to a plan.
pub(super) fn state_of(object: &DynamicObject) -> String {
    let confirmed = object.annotations().get(annotation::CONFIRM_DELETES);
    let deleting = object.metadata.deletion_timestamp.is_some();
    digest(&json!([
        object.uid(),
        object.data.get("spec"),
        confirmed,
        deleting
    ]))
}

fn digest(state: &Value) -> String {
    hash::of_value(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposed(kind: Kind, name: &str, spec: &Value) -> Proposed {
        Proposed {
            kind,
            namespace: "default".to_owned(),
            name: name.to_owned(),
            object: json!({ "spec": spec }),
            place: Place {
                file: "a.yaml".to_owned(),
                number: 1,
                line: 1,
                item: None,
            },
        }
    }

    /// A plan of a Placement covers the Applications that refer to it, and so the other Placements that these refer to.
    #[test]
    fn a_plan_depends_on_every_placement_that_it_places_by() {
        let step =
            |placement: &str| json!({"type": "deploy", "properties": {"placementRef": {"name": placement}}});
        let web = json!({"workflow": {"steps": [step("gold"), step("silver")]}});
        let gold = [proposed(Kind::Placement, "gold", &json!({}))];
        let referring = [proposed(Kind::Application, "web", &web)];
        let key = |name: &str| ("default".to_owned(), name.to_owned());
        let both = BTreeSet::from([key("gold"), key("silver")]);
        assert_eq!(concerned(&gold, &referring), both);
        assert_eq!(concerned(&referring, &[]), both);
        assert_eq!(concerned(&gold, &[]), BTreeSet::from([key("gold")]));
    }
}
