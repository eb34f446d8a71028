//! What a hub knows of some applications, read at once: the snapshot that plans are made against, and a digest of each
//! object in it, so that a plan can say later what has moved.

use super::{
    Failure,
    documents::Place,
    proposals::{self, Kind, Proposed},
};
use crate::{application::Snapshot, plan::Dispatched};
use futures::{StreamExt, stream};
use kube::{Api, Client, Error, ResourceExt, api::ListParams, core::DynamicObject};
use roundhouse_api::{
    application::references,
    bundle::Bundle,
    cluster::Cluster,
    decision::Decision,
    hash,
    names::{annotation, label},
    revision::ApplicationRevision,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

/// Objects of one answer: Bundles are large, and only one copy of equal contents is kept.
const PAGE: u32 = 250;
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

/// Reads what a hub knows of what is proposed, and of its fleet.
///
/// # Errors
/// The hub cannot be read.
pub(super) async fn read(hub: &Client, proposed: &[Proposed]) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    let mut applications = proposals::keys(proposed, Kind::Application);
    seen.referring = referring(hub, proposed, &applications).await?;
    applications.extend(proposals::keys(&seen.referring, Kind::Application));
    let applications = &applications;
    let placements = &concerned(proposed);
    pages::<Cluster>(
        &Api::all(hub.clone()),
        "clusters",
        &ListParams::default(),
        |cluster| {
            seen.put_cluster(&cluster);
        },
    )
    .await?;
    let resource = Kind::ComponentDefinition.resource();
    let api: Api<DynamicObject> = Api::all_with(hub.clone(), &resource);
    pages(
        &api,
        "componentdefinitions",
        &ListParams::default(),
        |definition: DynamicObject| {
            seen.note(Kind::ComponentDefinition, &definition);
            // One that does not read is passed over by the controller too.
            if let Ok(definition) = serde_json::to_value(&definition).and_then(serde_json::from_value) {
                seen.snapshot.put_definition(&definition);
            }
        },
    )
    .await?;
    let namespaces: BTreeSet<&String> = applications.iter().map(|(namespace, _)| namespace).collect();
    for namespace in namespaces {
        let resource = Kind::Placement.resource();
        let api: Api<DynamicObject> = Api::namespaced_with(hub.clone(), namespace, &resource);
        pages(&api, "placements", &ListParams::default(), |placement| {
            if placements.contains(&(placement.namespace().unwrap_or_default(), placement.name_any())) {
                seen.note(Kind::Placement, &placement);
            }
            seen.snapshot.put_placement(placement);
        })
        .await?;
        let decisions: Api<Decision> = Api::namespaced(hub.clone(), namespace);
        let wanted = |decision: &Decision| {
            let of = &decision.spec.application_ref;
            applications.contains(&(of.namespace.clone(), of.name.clone()))
        };
        pages(
            &decisions,
            "decisions",
            &ListParams::default(),
            |decision: Decision| {
                if wanted(&decision) {
                    seen.note_decision(&decision);
                }
                seen.snapshot.put_decision(decision);
            },
        )
        .await?;
    }
    // Each application by itself, a few at a time; what they have is put together in their order.
    let mut read = stream::iter(applications)
        .map(|(namespace, name)| of_application(hub, namespace, name))
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

/// The Placements that are proposed, and those that proposed Applications refer to: others do not matter.
fn concerned(proposed: &[Proposed]) -> BTreeSet<(String, String)> {
    let mut placements = proposals::keys(proposed, Kind::Placement);
    for one in proposed.iter().filter(|one| one.kind == Kind::Application) {
        let named = references(one.spec()).into_iter();
        placements.extend(named.map(|name| (one.namespace.clone(), name)));
    }
    placements
}

/// The Applications on the hub that refer to a proposed Placement, without those that are proposed themselves.
async fn referring(
    hub: &Client,
    proposed: &[Proposed],
    known: &BTreeSet<(String, String)>,
) -> Result<Vec<Proposed>, Failure> {
    let placements = proposals::keys(proposed, Kind::Placement);
    let namespaces: BTreeSet<&String> = placements.iter().map(|(namespace, _)| namespace).collect();
    let resource = Kind::Application.resource();
    let mut found = Vec::new();
    for namespace in namespaces {
        let api: Api<DynamicObject> = Api::namespaced_with(hub.clone(), namespace, &resource);
        pages(
            &api,
            "applications",
            &ListParams::default(),
            |application: DynamicObject| {
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
            },
        )
        .await?;
    }
    Ok(found)
}

type OfApplication = (Option<DynamicObject>, Vec<ApplicationRevision>, Vec<Bundle>);

async fn of_application(hub: &Client, namespace: &str, name: &str) -> Result<OfApplication, Failure> {
    let resource = Kind::Application.resource();
    let applications: Api<DynamicObject> = Api::namespaced_with(hub.clone(), namespace, &resource);
    let application = applications.get_opt(name).await;
    let application =
        application.map_err(|error| unreadable(&format!("Application {namespace}/{name}"), error))?;
    let labels = format!("{}={name},{}={namespace}", label::APP_NAME, label::APP_NAMESPACE);
    let labels = ListParams::default().labels(&labels);
    let (mut revisions, mut bundles) = (Vec::new(), Vec::new());
    let api: Api<ApplicationRevision> = Api::namespaced(hub.clone(), namespace);
    pages(&api, "applicationrevisions", &labels, |revision| {
        revisions.push(revision)
    })
    .await?;
    let api: Api<Bundle> = Api::all(hub.clone());
    pages(&api, "bundles", &labels, |bundle| bundles.push(bundle)).await?;
    Ok((application, revisions, bundles))
}

impl Seen {
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

/// Every object of a list, page by page.
pub(super) async fn pages<K>(
    api: &Api<K>,
    what: &str,
    params: &ListParams,
    mut take: impl FnMut(K),
) -> Result<(), Failure>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = params.clone().limit(PAGE);
    loop {
        let list = api.list(&params).await.map_err(|error| unreadable(what, error))?;
        let more = list.metadata.continue_.clone().filter(|token| !token.is_empty());
        list.items.into_iter().for_each(&mut take);
        match more {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// The hub did not answer as it should.
pub(super) fn unreadable(what: &str, error: Error) -> Failure {
    let failure = Failure::new("E-HUB", format!("the hub cannot be read: {what}"));
    let failure = match error {
        // Its own text adds the whole answer as a debug print.
        Error::Api(answer) => failure.because(answer.message),
        error => failure.because(error),
    };
    failure.advise("kubectl get applications -A with the same kubeconfig; --kubeconfig F if it is the wrong one, or --inventory F to plan without a hub")
}
