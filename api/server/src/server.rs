//! A server: its parts, and how one is built.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    auth::{AllowAuthenticated, Authorizer, Identity},
    clock::{Clock, Dice, system_clock},
    collect::{Notes, Owners},
    count::WriteCounter,
    kinds::{Registry, Resource},
    object,
    service::ApiService,
    store::{Key, MemoryLimits, MemoryStore, Range, Store},
    verbs,
};

/// Namespaces every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Requests read and answered at a time; more are told to come back. Open watches do not count.
const MAX_IN_FLIGHT: usize = 1_024;

/// Everything the handlers share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) dice: Dice,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) counter: WriteCounter,
    pub(crate) owners: Owners,
    pub(crate) notes: Notes,
    pub(crate) in_flight: Semaphore,
}

impl Core {
    /// The namespace of that name.
    pub(crate) fn namespace(&self, name: &str) -> Option<Value> {
        self.read("v1", "Namespace", "", name)
    }

    /// An object by kind and name.
    pub(crate) fn read(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.registry.by_kind(api_version, kind)?;
        let key = Key::new(
            &resource.table,
            if resource.namespaced { namespace } else { "" },
            name,
        );
        self.store
            .get(&key)
            .map(|record| verbs::decode_stored(&resource, &record.bytes))
    }
}

/// How to build a [`Server`].
#[derive(Default)]
pub struct ServerBuilder {
    store: Option<Arc<dyn Store>>,
    clock: Option<Clock>,
    seed: Option<u64>,
    authorizer: Option<Arc<dyn Authorizer>>,
    limits: MemoryLimits,
    per_object: bool,
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("seed", &self.seed)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl ServerBuilder {
    /// Where objects live; in memory by default.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// The time written into objects; the machine's clock by default.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Makes uids and generated names the same in every run.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Who may do what; [`AllowAuthenticated`] by default.
    #[must_use]
    pub fn authorizer(mut self, authorizer: Arc<dyn Authorizer>) -> Self {
        self.authorizer = Some(authorizer);
        self
    }

    /// Bounds of the in-memory store.
    #[must_use]
    pub fn limits(mut self, limits: MemoryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Counts stored writes of every object, not only their total.
    #[must_use]
    pub fn count_per_object(mut self, on: bool) -> Self {
        self.per_object = on;
        self
    }

    /// The server, with the namespaces every cluster has.
    pub fn build(self) -> Server {
        let core = Arc::new(Core {
            store: self
                .store
                .unwrap_or_else(|| Arc::new(MemoryStore::new(self.limits))),
            registry: Registry::default(),
            clock: self.clock.unwrap_or_else(system_clock),
            dice: self.seed.map_or_else(Dice::random, Dice::seeded),
            authorizer: self.authorizer.unwrap_or_else(|| Arc::new(AllowAuthenticated)),
            counter: WriteCounter::new(self.per_object),
            owners: Owners::default(),
            notes: Notes::default(),
            in_flight: Semaphore::new(MAX_IN_FLIGHT),
        });
        core.load();
        let server = Server { core };
        for name in NAMESPACES {
            server.ensure_namespace(name);
        }
        server
    }
}

impl Core {
    /// Rebuilds what is derived from stored objects: custom kinds and the index of owners.
    fn load(&self) {
        let all = |resource: &Resource| {
            let range = Range {
                table: resource.table.clone(),
                namespace: None,
                after: None,
                limit: usize::MAX,
                revision: None,
            };
            self.store.list(&range).map(|l| l.records).unwrap_or_default()
        };
        if let Some(definitions) = self
            .registry
            .by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        {
            for (_, record) in all(&definitions) {
                self.serve_definition(&verbs::decode_stored(&definitions, &record.bytes));
            }
        }
        for resource in self.registry.all() {
            for (key, record) in all(&resource) {
                self.owners
                    .note(&key, &object::owners(&object::decode(&record.bytes)));
            }
        }
    }
}

/// An embedded Kubernetes API server. Cheap to clone; all clones are the same server.
///
/// ```
/// # async fn example() -> Result<(), kube::Error> {
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let server = roundhouse_apiserver::Server::builder().build();
/// let client = kube::Client::new(server.service(), "default");
/// let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client);
/// assert!(maps.list(&Default::default()).await?.items.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server {
    pub(crate) core: Arc<Core>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Starts building a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The service for callers in this process: requests act as the administrator, or as the [`Identity`] in their
    /// extensions.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.core.clone(), Some(Identity::admin()))
    }

    /// The service for one caller; without an identity only the health paths answer.
    pub fn service_as(&self, identity: Option<Identity>) -> ApiService {
        ApiService::new(self.core.clone(), identity)
    }

    /// What was written and asked.
    pub fn counter(&self) -> &WriteCounter {
        &self.core.counter
    }

    /// The revision of the last stored write.
    pub fn revision(&self) -> u64 {
        self.core.store.revision()
    }

    /// Ends every watch, as a server that shuts down does.
    pub fn close_watches(&self) {
        self.core.store.close_subscriptions();
    }

    fn ensure_namespace(&self, name: &str) {
        if self.core.namespace(name).is_none()
            && let Some(resource) = self.core.registry.by_kind("v1", "Namespace")
        {
            let intent = verbs::Intent::of_controller(verbs::Part::Main);
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            // The names are valid and the namespaces absent, so only a store that refuses writes can fail this; the
            // first request will say so again.
            if let Err(error) = verbs::store_new(&self.core, &resource, "", &namespace, &intent) {
                tracing::error!(%error, "namespace {name} could not be created");
            }
        }
    }
}
