//! A server: its parts, and how one is built.

use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::{
    audit::{AuditSink, Refusals},
    auth::{
        AllowAuthenticated, Authority, Authorizer, Caller, Identity, RBAC_TABLES, Rbac, Revoked, Rights,
        Stored, TokenKey, presented, revoked_list,
    },
    clock::{Clock, Dice, Moments, system_clock},
    collect::{Notes, Owners},
    count::WriteCounter,
    fence::Fence,
    flow::Flow,
    health::Health,
    kinds::Registry,
    metrics::Metrics,
    object,
    service::ApiService,
    store::{Key, Listing, MemoryStore, Range, Record, Store, StoreLimits},
    verbs,
};

/// Namespaces every cluster has.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Everything the handlers share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) dice: Dice,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// What tokens of service accounts are signed with; without it there are none.
    pub(crate) tokens: Option<TokenKey>,
    /// Who signs certificates that are asked for by CertificateSigningRequests; without it nobody does.
    pub(crate) signer: Option<Arc<Authority>>,
    /// Certificates that are not taken any longer.
    pub(crate) revoked: RwLock<Revoked>,
    /// What open watches are told of it, and of other rights that are taken away.
    pub(crate) rights: Rights,
    /// When those do something who do it together.
    pub(crate) moments: Moments,
    /// Where writes and refusals are recorded; without it they are not.
    pub(crate) audit: Option<Arc<dyn AuditSink>>,
    pub(crate) refusals: Refusals,
    /// Whether mistakes of clients are refused that Kubernetes tolerates.
    pub(crate) strict: bool,
    /// The authorizer, if it is the one that obeys stored roles.
    pub(crate) rbac: Option<Arc<Rbac>>,
    pub(crate) counter: WriteCounter,
    pub(crate) owners: Owners,
    pub(crate) notes: Notes,
    pub(crate) flow: Flow,
    /// Keeps the writes of terms that are over out.
    pub(crate) fence: Fence,
    pub(crate) health: Health,
    pub(crate) metrics: Metrics,
}

impl Core {
    /// The namespace of that name.
    pub(crate) fn namespace(&self, name: &str) -> Option<Record> {
        self.store.get(&Key::new(&"namespaces".into(), "", name))
    }

    /// The objects of a table, or of one namespace of it.
    pub(crate) fn records(
        &self,
        table: &str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (Key, Record)> + use<> {
        let listed = self.store.list(&Range::all(table, namespace)).ok();
        listed.into_iter().flat_map(Listing::into_records)
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
    rbac: bool,
    strict: bool,
    tokens: Option<TokenKey>,
    signer: Option<Arc<Authority>>,
    audit: Option<Arc<dyn AuditSink>>,
    limits: StoreLimits,
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

    /// Who may do what is said by the Roles, ClusterRoles and bindings that are stored; the ones every cluster has are
    /// written at the start. It takes the place of [`ServerBuilder::authorizer`].
    #[must_use]
    pub fn rbac(mut self) -> Self {
        self.rbac = true;
        self
    }

    /// Gives out tokens of service accounts signed with this key, and takes them; without a key there are none.
    #[must_use]
    pub fn tokens(mut self, key: TokenKey) -> Self {
        self.tokens = Some(key);
        self
    }

    /// Signs approved CertificateSigningRequests with this authority; without one they stay unsigned.
    #[must_use]
    pub fn signer(mut self, authority: Arc<Authority>) -> Self {
        self.signer = Some(authority);
        self
    }

    /// Records writes, and requests that are refused; without it nothing is recorded.
    #[must_use]
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.audit = Some(sink);
        self
    }

    /// Bounds of the in-memory store.
    #[must_use]
    pub fn limits(mut self, limits: StoreLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Refuses what Kubernetes tolerates although it is a mistake of the client, so that tests find it: unknown parameters,
    /// unknown and duplicate fields whatever `fieldValidation` says, new objects with a status or with metadata that only the
    /// server makes, updates without `resourceVersion`, and changes of a status or a spec that would be dropped in silence.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
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
        let rbac = self.rbac.then(Arc::<Rbac>::default);
        let authorizer = match &rbac {
            Some(rbac) => rbac.clone(),
            None => self.authorizer.unwrap_or_else(|| Arc::new(AllowAuthenticated)),
        };
        let core = Arc::new(Core {
            store: self
                .store
                .unwrap_or_else(|| Arc::new(MemoryStore::new(self.limits))),
            registry: Registry::default(),
            clock: self.clock.unwrap_or_else(system_clock),
            dice: self.seed.map_or_else(Dice::random, Dice::seeded),
            authorizer,
            rbac,
            strict: self.strict,
            tokens: self.tokens,
            signer: self.signer,
            audit: self.audit,
            refusals: Refusals::default(),
            revoked: RwLock::default(),
            rights: Rights::default(),
            moments: Moments::default(),
            counter: WriteCounter::new(self.per_object),
            owners: Owners::default(),
            notes: Notes::default(),
            flow: Flow::default(),
            fence: Fence::default(),
            health: Health::default(),
            metrics: Metrics::default(),
        });
        core.load();
        let server = Server { core };
        for name in NAMESPACES {
            server.ensure_namespace(name);
        }
        if server.core.rbac.is_some() {
            server.core.reconcile_roles();
        }
        server
    }
}

impl Core {
    /// Takes the stored list of revoked certificates over. It is read while nobody else takes it over, so that of two writes
    /// at once the later one is what stays.
    pub(crate) fn follow_revoked(&self) {
        let mut revoked = self.revoked.write();
        let stored = self.store.get(&revoked_list());
        let stored = stored.map(|record| object::decode(&record.bytes));
        *revoked = Revoked::of(stored.as_ref());
    }

    /// Takes a stored role or binding over into the authorizer.
    pub(crate) fn follow_role(&self, key: &Key) {
        let Some(rbac) = &self.rbac else { return };
        let stored = Stored {
            table: &key.table,
            namespace: &key.namespace,
            name: &key.name,
        };
        rbac.follow(&stored, || {
            self.store.get(key).map(|record| object::decode(&record.bytes))
        });
    }

    /// Rebuilds what is derived from stored objects: custom kinds and the index of owners.
    fn load(&self) {
        self.follow_revoked();
        if self.rbac.is_some() {
            for (key, _) in RBAC_TABLES.iter().flat_map(|table| self.records(table, None)) {
                self.follow_role(&key);
            }
        }
        self.note_everything();
        self.follow_up();
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
        self.service_as(Some(Identity::admin()))
    }

    /// The service for one caller; without an identity only the health paths answer.
    pub fn service_as(&self, identity: Option<Identity>) -> ApiService {
        self.service_for(Caller::inside(identity))
    }

    /// The service for a caller in this process who has this client certificate (DER), which is taken to be verified; `None`
    /// if it names nobody.
    pub fn service_with_certificate(&self, certificate: &[u8]) -> Option<ApiService> {
        presented(certificate).map(|presented| self.service_for(Caller::inside_with(presented)))
    }

    pub(crate) fn service_for(&self, caller: Caller) -> ApiService {
        ApiService::new(self.core.clone(), caller)
    }

    /// What was written and asked.
    pub fn counter(&self) -> &WriteCounter {
        &self.core.counter
    }

    /// The revision of the last stored write.
    pub fn revision(&self) -> u64 {
        self.core.store.revision()
    }

    /// Tells probes that the server is about to stop: `/readyz` turns 500. Nothing else changes.
    pub fn begin_shutdown(&self) {
        self.core.health.begin_shutdown();
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
