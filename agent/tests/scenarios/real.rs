//! Real API servers behind the scenarios, where `KUBEBUILDER_ASSETS` names them: one pair for all, used by one scenario
//! after the other, and emptied in between. No controllers run there; the one whose work scenarios see, the namespace
//! controller, is played here.

use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use roundhouse_api::clock::{Clock, SystemClock};
use roundhouse_apiserver::envtest::{self, Envtest};
use serde_json::json;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;
use tokio::sync::MutexGuard;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// How long a real server may take to start, or to forget a scenario.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Resource, namespace and name.
type Id = (String, String, String);

/// A server with what it is born with.
struct Standing {
    server: Envtest,
    born_with: BTreeSet<Id>,
}

/// Hub and member. They end with the process.
static SERVERS: tokio::sync::Mutex<Option<[Standing; 2]>> = tokio::sync::Mutex::const_new(None);

thread_local! {
    /// The runtime of this thread whose time goes on.
    static RESUMED: Cell<Option<tokio::runtime::Id>> = const { Cell::new(None) };
}

/// The turn of one scenario on the real servers; one that asked for a second world beside it would wait for itself.
pub(crate) struct Real {
    pub(crate) hub: Client,
    pub(crate) member: Client,
    /// What [`Real::changes`] saw last, and how many changes it counted.
    seen: Mutex<(BTreeMap<Id, String>, u64)>,
    kubeconfigs: [String; 2],
    _namespace_controllers: [AbortOnDropHandle<()>; 2],
    _turn: MutexGuard<'static, Option<[Standing; 2]>>,
}

/// The real servers, emptied; `None` where the environment names none. Time goes on from here.
pub(crate) async fn servers() -> Option<Real> {
    let assets = envtest::assets()?;
    let runtime = tokio::runtime::Handle::current().id();
    // A scenario may have one world after the other; its time is paused at the first only.
    if RESUMED.replace(Some(runtime)) != Some(runtime) {
        tokio::time::resume();
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut turn = SERVERS.lock().await;
    if turn.is_none() {
        let start = || Envtest::start(&assets, SystemClock.now()).unwrap();
        *turn = Some([born(start()).await, born(start()).await]);
    }
    let [hub, member] = turn.as_ref().unwrap();
    let kubeconfigs = [hub, member].map(|standing| standing.server.kubeconfig().to_owned());
    let clients = [client(&kubeconfigs[0]).await, client(&kubeconfigs[1]).await];
    for (standing, client) in [hub, member].into_iter().zip(&clients) {
        empty(client, &standing.born_with).await;
    }
    let controllers = clients
        .clone()
        .map(|client| AbortOnDropHandle::new(tokio::spawn(end_namespaces(client))));
    let [hub, member] = clients;
    Some(Real {
        hub,
        member,
        seen: Mutex::default(),
        kubeconfigs,
        _namespace_controllers: controllers,
        _turn: turn,
    })
}

impl Real {
    /// Changes at both servers that were noticed so far; the Leases and what the servers keep for themselves left out.
    pub(crate) fn changes(&self) -> u64 {
        let mut now = BTreeMap::new();
        for (side, kubeconfig) in ["hub", "member"].into_iter().zip(&self.kubeconfigs) {
            for ((resource, namespace, name), version) in apart(versions(kubeconfig.clone())) {
                if resource != "leases" && resource != "events" {
                    now.insert((format!("{side} {resource}"), namespace, name), version);
                }
            }
        }
        let mut seen = self.seen.lock();
        let changed = now
            .iter()
            .filter(|(id, version)| seen.0.get(*id) != Some(*version))
            .count();
        let gone = seen.0.keys().filter(|id| !now.contains_key(*id)).count();
        seen.1 += u64::try_from(changed + gone).unwrap();
        seen.0 = now;
        seen.1
    }
}

/// Runs something beside the scenario, which stands still meanwhile.
fn apart<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(work)
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

async fn versions(kubeconfig: String) -> BTreeMap<Id, String> {
    let client = client(&kubeconfig).await;
    let objects = all(&client).await.into_iter();
    objects
        .map(|(_, id, object)| (id, object.resource_version().unwrap_or_default()))
        .collect()
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Waits until a server that was just started is ready and makes nothing more of its own.
async fn born(server: Envtest) -> Standing {
    let client = client(server.kubeconfig()).await;
    until("the real API server to be ready", async || {
        let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
        client.request_text(request).await.is_ok()
    })
    .await;
    let mut born_with = BTreeSet::new();
    until("the real API server to have made its own objects", async || {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now: BTreeSet<Id> = all(&client).await.into_iter().map(|(_, id, _)| id).collect();
        let settled =
            now == born_with && now.contains(&("namespaces".into(), String::new(), "default".into()));
        born_with = now;
        settled
    })
    .await;
    Standing { server, born_with }
}

/// Waits until a definition is served.
pub(crate) async fn established(definitions: &Api<DynamicObject>, name: &str) {
    until("the definition to be served", async || {
        let live = definitions.get(name).await.unwrap();
        let conditions = live
            .data
            .pointer("/status/conditions")
            .and_then(|c| c.as_array().cloned());
        let conditions = conditions.unwrap_or_default();
        conditions
            .iter()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    })
    .await;
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Every object outside the server's own namespaces.
async fn all(client: &Client) -> Vec<(Api<DynamicObject>, Id, DynamicObject)> {
    let mut found = Vec::new();
    // A definition that is on its way out may end discovery of its group early: then the next look sees more.
    let Ok(discovery) = Discovery::new(client.clone()).run().await else {
        return found;
    };
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
        if !capabilities.supports_operation(verbs::LIST) || !capabilities.supports_operation(verbs::DELETE) {
            continue;
        }
        let everywhere: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let Ok(list) = everywhere.list(&ListParams::default()).await else {
            continue;
        };
        for object in list {
            let namespace = object.namespace().unwrap_or_default();
            // The aggregator keeps an APIService for every group of a definition by itself.
            if namespace.starts_with("kube-") || object.labels().contains_key(AUTOMANAGED) {
                continue;
            }
            let api = if capabilities.scope == Scope::Namespaced {
                Api::namespaced_with(client.clone(), &namespace, &resource)
            } else {
                everywhere.clone()
            };
            let id = (resource.plural.clone(), namespace, object.name_any());
            found.push((api, id, object));
        }
    }
    found
}

/// Removes what the last scenario left: everything but what the server was born with and our own definitions.
async fn empty(client: &Client, born_with: &BTreeSet<Id>) {
    let ours = |(resource, _, name): &Id| {
        resource == "customresourcedefinitions" && name.ends_with(".roundhouse.dev")
    };
    until("the real API server to forget the last scenario", async || {
        let left = all(client).await;
        let left = left
            .into_iter()
            .filter(|(_, id, _)| !born_with.contains(id) && !ours(id));
        let mut none = true;
        for (api, (resource, _, name), object) in left {
            none = false;
            let is_definition = resource == "customresourcedefinitions";
            end(&api, &name, &object, is_definition).await;
            if resource == "namespaces" {
                finalize(client, &object).await;
            }
        }
        none
    })
    .await;
}

/// Deletes an object, finalizers or not; those of a definition are the server's own.
async fn end(api: &Api<DynamicObject>, name: &str, object: &DynamicObject, is_definition: bool) {
    if !is_definition && object.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty()) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = api.patch(name, &PatchParams::default(), &patch).await;
    }
    if object.metadata.deletion_timestamp.is_none() {
        // What is gone or going meanwhile is looked at again.
        let _ = api
            .delete(name, &DeleteParams::background().grace_period(0))
            .await;
    }
}

/// Plays the namespace controller: a namespace that is being deleted loses its objects, and goes when it is empty.
async fn end_namespaces(client: Client) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace"));
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    loop {
        let listed = namespaces.list(&ListParams::default()).await;
        let listed = listed.map(|list| list.items).unwrap_or_default();
        let going = listed
            .into_iter()
            .filter(|n| n.metadata.deletion_timestamp.is_some());
        for namespace in going {
            let name = namespace.name_any();
            let inside = all(&client).await.into_iter().filter(|(_, id, _)| id.1 == name);
            let mut is_empty = true;
            for (api, (_, _, object), found) in inside {
                is_empty = false;
                if found.metadata.deletion_timestamp.is_none() {
                    let _ = api.delete(&object, &DeleteParams::background()).await;
                }
            }
            if is_empty {
                finalize(&client, &namespace).await;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Takes the finalizer off a namespace's spec, as only the subresource may.
async fn finalize(client: &Client, namespace: &DynamicObject) {
    let mut namespace = namespace.clone();
    namespace.data["spec"] = json!({"finalizers": []});
    let path = format!("/api/v1/namespaces/{}/finalize", namespace.name_any());
    let request = http::Request::put(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(&namespace).unwrap())
        .unwrap();
    let _ = client.request_text(request).await;
}
