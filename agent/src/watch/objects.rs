//! Shared watches of the member: one per kind that some bundle uses, on metadata only.
//!
//! Objects that carry the label `app.oam.dev/name` are watched across all namespaces by that label; for objects of
//! hand-written bundles, which need not carry it, the namespace is watched whole and other objects' events dropped.

use crate::delay::SharedJitter;
use crate::kinds::{Kind, Kinds};
use crate::object::ObjectKey;
use crate::restart::{Restart, restarting};
use crate::watch::registry::Registry;
use crate::watch::{Steady, steady, watching};
use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::Mutex;
use roundhouse_api::names::label;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Objects of one page of a list.
const PAGE: u32 = 500;

/// What one watch covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    group: String,
    /// A watch of a version that is no longer served would see nothing.
    version: String,
    kind: String,
    /// Only this namespace; `None` for all, and for cluster-scoped kinds.
    namespace: Option<String>,
    /// Only objects with the label.
    labelled: bool,
}

impl Scope {
    /// The scope that covers an object.
    pub(crate) fn of(target: &ObjectKey, kind: &Kind, labelled: bool) -> Self {
        Scope {
            group: target.group.clone(),
            version: kind.resource.version.clone(),
            kind: target.kind.clone(),
            namespace: (!labelled && kind.namespaced).then(|| target.namespace.clone()),
            labelled,
        }
    }

    /// The scope of definitions, for a bundle that waits for one.
    pub(crate) fn definitions() -> Self {
        Scope {
            group: "apiextensions.k8s.io".to_owned(),
            version: "v1".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: None,
            labelled: false,
        }
    }

    fn is_definitions(&self) -> bool {
        *self == Scope::definitions()
    }
}

struct Running {
    /// Which bundles use it.
    users: BTreeSet<String>,
    /// Ends the watch when the last one leaves.
    _guard: DropGuard,
}

/// The watches of one member.
pub(crate) struct Objects {
    client: Client,
    registry: Arc<Registry>,
    kinds: Arc<Kinds>,
    retry: (Duration, Duration),
    jitter: SharedJitter,
    stop: CancellationToken,
    running: Mutex<BTreeMap<Scope, Running>>,
}

impl Objects {
    pub(crate) fn new(
        client: Client,
        registry: Arc<Registry>,
        kinds: Arc<Kinds>,
        retry: (Duration, Duration),
        jitter: SharedJitter,
        stop: CancellationToken,
    ) -> Self {
        Objects {
            client: watching(client),
            registry,
            kinds,
            retry,
            jitter,
            stop,
            running: Mutex::default(),
        }
    }

    /// Says what a bundle wants watched, instead of what it said before.
    pub(crate) fn want(&self, bundle: &str, scopes: BTreeMap<Scope, Arc<Kind>>) {
        let mut running = self.running.lock();
        running.retain(|scope, watch| {
            if !scopes.contains_key(scope) {
                watch.users.remove(bundle);
            }
            !watch.users.is_empty()
        });
        for (scope, kind) in scopes {
            if let Some(watch) = running.get_mut(&scope) {
                watch.users.insert(bundle.to_owned());
                continue;
            }
            let token = self.stop.child_token();
            tokio::spawn(self.watch(scope.clone(), &kind, token.clone()));
            let users = BTreeSet::from([bundle.to_owned()]);
            running.insert(
                scope,
                Running {
                    users,
                    _guard: token.drop_guard(),
                },
            );
        }
    }

    fn watch(&self, scope: Scope, kind: &Kind, token: CancellationToken) -> impl Future<Output = ()> + use<> {
        let api: Api<PartialObjectMeta<DynamicObject>> = match &scope.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.resource),
            None => Api::all_with(self.client.clone(), &kind.resource),
        };
        let mut config = watcher::Config::default().page_size(PAGE);
        if scope.labelled {
            config = config.labels(label::APP_NAME);
        }
        let policy = Steady {
            what: format!("{} in the member", kind.resource.plural),
            resumes: false,
            min: self.retry.0,
            max: self.retry.1,
            jitter: Arc::clone(&self.jitter),
        };
        let restart = Restart {
            min: self.retry.0,
            max: self.retry.1,
            jitter: Arc::clone(&self.jitter),
            stop: token.clone(),
        };
        let (registry, kinds) = (Arc::clone(&self.registry), Arc::clone(&self.kinds));
        async move {
            let what = format!("watch of {}", policy.what);
            let work = restarting(&what, restart, |_| {
                let mut view = View::new(scope.clone(), Arc::clone(&registry), Arc::clone(&kinds));
                let begin = || watcher(api.clone(), config.clone());
                steady(policy.clone(), begin, move |event| view.take(event))
            });
            token.run_until_cancelled(work).await;
        }
    }
}

/// What a list had, with the versions.
type Listed = BTreeMap<ObjectKey, Option<String>>;

/// What one watch has seen: no objects, only which ones a list that is under way had.
struct View {
    scope: Scope,
    registry: Arc<Registry>,
    kinds: Arc<Kinds>,
    listing: Option<Listed>,
    /// The definitions that the last list had; `None` before the first, and for any other kind.
    definitions: Option<Listed>,
}

impl View {
    fn new(scope: Scope, registry: Arc<Registry>, kinds: Arc<Kinds>) -> Self {
        View {
            scope,
            registry,
            kinds,
            listing: None,
            definitions: None,
        }
    }

    fn take(&mut self, event: watcher::Event<PartialObjectMeta<DynamicObject>>) {
        match event {
            watcher::Event::Init => self.listing = Some(Listed::new()),
            watcher::Event::InitApply(object) => {
                let key = self.key(&object.metadata);
                self.registry
                    .touched(&key, object.metadata.resource_version.as_deref());
                if let Some(listing) = &mut self.listing {
                    listing.insert(key, object.metadata.resource_version);
                }
            }
            watcher::Event::InitDone => {
                let present = self.listing.take().unwrap_or_default();
                let Scope {
                    group,
                    kind,
                    namespace,
                    ..
                } = &self.scope;
                let seen = self.registry.seen_of_kind(group, kind, namespace.as_deref());
                for gone in seen.iter().filter(|key| !present.contains_key(key)) {
                    self.registry.touched(gone, None);
                }
                // What came before the watch began, or between two lists, is in no event.
                if self.scope.is_definitions() && self.definitions.as_ref() != Some(&present) {
                    self.definitions = Some(present);
                    self.definitions_changed();
                }
            }
            watcher::Event::Apply(object) => {
                let key = self.key(&object.metadata);
                self.registry
                    .touched(&key, object.metadata.resource_version.as_deref());
                self.definitions_changed();
            }
            watcher::Event::Delete(object) => {
                // The label may only have been taken off; a look at the object tells.
                self.registry.touched(&self.key(&object.metadata), None);
                self.definitions_changed();
            }
        }
    }

    fn definitions_changed(&self) {
        if self.scope.is_definitions() {
            self.kinds.forget();
            self.registry.kinds_changed();
        }
    }

    fn key(&self, metadata: &ObjectMeta) -> ObjectKey {
        ObjectKey {
            group: self.scope.group.clone(),
            kind: self.scope.kind.clone(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Presence;
    use roundhouse_apiserver::Server;
    use serde_json::json;

    fn definition(name: &str, version: &str) -> PartialObjectMeta<DynamicObject> {
        let metadata = json!({"name": name, "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[tokio::test]
    async fn what_came_of_definitions_between_two_lists_is_news() {
        let client = Client::new(Server::builder().build().service(), "default");
        let kinds = Arc::new(Kinds::new(client, Duration::from_secs(1)));
        let registry = Arc::new(Registry::default());
        let inbox = registry.tell("d.a", Presence::Missing).unwrap();
        inbox.take();
        let mut view = View::new(Scope::definitions(), registry, kinds);
        let (a, b) = (("a.x.io", "1"), ("b.x.io", "2"));
        for (listed, expected) in [
            // What was there before the watch began may have come after the kind was asked for.
            (vec![a], true),
            (vec![a], false),
            (vec![a, b], true),
            (vec![a, ("b.x.io", "3")], true),
            (vec![a], true),
            (vec![a], false),
        ] {
            view.take(watcher::Event::Init);
            for (name, version) in &listed {
                view.take(watcher::Event::InitApply(definition(name, version)));
            }
            view.take(watcher::Event::InitDone);
            assert_eq!(inbox.take().1.kinds, expected, "{listed:?}");
        }
        view.take(watcher::Event::Apply(definition("c.x.io", "4")));
        assert!(inbox.take().1.kinds);
    }
}
