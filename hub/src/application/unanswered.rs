//! Unanswered: writes of Bundles that nobody has answered. Such a write may arrive minutes later, and is done then if nobody has
//! written the Bundle since: the removal from a cluster that has its place back, or new content for a cluster whose turn
//! another one has got. So before anything else is decided about the application, the Bundle is given another version than the
//! write names.
//!
//! What a hub sent before it was killed is not known to the next one. Of two writes of one version the API server does one.

use super::{Key, bundles::Writer, error::PassError};
use crate::{dispatch::Observed, leader::NotLeading};
use kube::{
    Api, Error,
    api::{Patch, PatchParams},
};
use parking_lot::Mutex;
use roundhouse_api::{
    bundle::Bundle,
    names::{HUB_FIELD_MANAGER, annotation},
};
use serde_json::json;
use std::collections::BTreeMap;

/// A Bundle, and the version that a write of it names.
type Sent = BTreeMap<Key, String>;

/// Writes without an answer, by the application that they are for.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<BTreeMap<Key, Sent>>);

impl Unanswered {
    /// Sends a write of a Bundle that names its version. It counts as unanswered from its beginning, so also if nobody waits
    /// for it any more, until somebody who decides about it has answered.
    pub(super) async fn watch<T>(
        &self,
        application: &Key,
        bundle: (&str, &str, &str),
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let (namespace, name, version) = bundle;
        let bundle = (namespace.to_owned(), name.to_owned());
        self.0
            .lock()
            .entry(application.clone())
            .or_default()
            .insert(bundle.clone(), version.to_owned());
        let answer = request.await;
        if !answer.as_ref().is_err_and(is_undecided) {
            self.settle(application, &bundle);
        }
        answer
    }

    fn of(&self, application: &Key) -> Sent {
        self.0.lock().get(application).cloned().unwrap_or_default()
    }

    fn settle(&self, application: &Key, bundle: &Key) {
        let mut all = self.0.lock();
        if let Some(sent) = all.get_mut(application) {
            sent.remove(bundle);
            if sent.is_empty() {
                all.remove(application);
            }
        }
    }
}

/// Whether a write may have been done, or be done yet. A webhook is asked before anything is stored: that it could not be asked
/// is the server's own word.
fn is_undecided(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code >= 500 && !status.message.contains("failed calling webhook"),
        // It was not sent.
        Error::Service(error) if error.is::<NotLeading>() => false,
        _ => true,
    }
}

impl Writer<'_> {
    /// Makes sure that no earlier write of this application's Bundles can be done any more.
    ///
    /// # Errors
    /// The API server does not answer: it is not known, and nothing is decided.
    pub(super) async fn fence(self) -> Result<(), PassError> {
        let key = self.key;
        let unanswered = self.cache.unanswered();
        for (bundle, version) in unanswered.of(key) {
            let api: Api<Bundle> = Api::namespaced(self.client.clone(), &bundle.0);
            let title = format!("{}/{}", key.0, key.1);
            let failed = |doing: &str, error| {
                PassError::api(&title, format!("{doing} bundle {}/{}", bundle.0, bundle.1), error)
            };
            let found = api.get_metadata_opt(&bundle.1).await;
            let found = found.map_err(|error| failed("reading", error))?;
            if found.is_some_and(|found| found.metadata.resource_version.as_deref() == Some(&version)) {
                let patch = json!({"metadata": {
                    "resourceVersion": version, "annotations": {annotation::FENCED: version}}});
                let params = PatchParams {
                    field_manager: Some(HUB_FIELD_MANAGER.to_owned()),
                    ..PatchParams::default()
                };
                match api.patch(&bundle.1, &params, &Patch::Merge(patch)).await {
                    Ok(fenced) => {
                        if let Some(observed) = Observed::of(fenced) {
                            self.cache.put_bundle(observed);
                        }
                    }
                    Err(error) if is_undecided(&error) => return Err(failed("fencing", error)),
                    // Somebody has written it, or it is gone; or it takes no write of this hub, so none that is late.
                    Err(error) => {
                        tracing::debug!(%error, namespace = bundle.0, name = bundle.1, "needs no fence")
                    }
                }
            }
            unanswered.settle(key, &bundle);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        application::cache::Cache,
        dispatch::removal,
        run::{HubOptions, install},
    };
    use futures::FutureExt;
    use http::Request;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::{Client, ResourceExt, api::PostParams, client::Body};
    use roundhouse_api::bundle::{ApplicationRef, BundleSpec, Deletion};
    use roundhouse_apiserver::Server;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    /// What becomes of a write that is not answered.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Fate {
        Arrives,
        IsLate,
    }

    type Held = Arc<Mutex<Option<Vec<Request<Vec<u8>>>>>>;

    /// A line on which writes are not answered as long as `held` keeps them.
    fn line(inner: Client, fate: Fate, held: Held) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, held) = (inner.clone(), held.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?.to_vec();
                let request = || Request::from_parts(head.clone(), Body::from(body.clone()));
                let is_lost = head.method != http::Method::GET
                    && match &mut *held.lock() {
                        Some(all) => {
                            all.push(Request::from_parts(head.clone(), body.clone()));
                            true
                        }
                        None => false,
                    };
                if !is_lost {
                    return inner.send(request()).await;
                }
                if fate == Fate::Arrives {
                    inner.send(request()).await?;
                }
                let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                Err(Error::Service(Box::new(reset)))
            }
            .boxed()
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_write_that_nobody_answered_is_not_done_any_more_when_the_next_pass_begins() {
        for fate in [Fate::IsLate, Fate::Arrives] {
            let server = Server::builder().seed(1).strict().build();
            let direct = Client::new(server.service(), "default");
            install(&direct, &HubOptions::default()).await.unwrap();
            let namespace = serde_json::from_value(json!({"metadata": {"name": "cluster-c1"}})).unwrap();
            let namespaces: Api<Namespace> = Api::all(direct.clone());
            namespaces
                .create(&PostParams::default(), &namespace)
                .await
                .unwrap();
            let key = ("default".to_owned(), "web".to_owned());
            let of = ApplicationRef {
                namespace: key.0.clone(),
                name: key.1.clone(),
                uid: "a".to_owned(),
            };
            let spec = BundleSpec {
                application_ref: Some(of),
                ..BundleSpec::default()
            };
            let bundles: Api<Bundle> = Api::namespaced(direct.clone(), "cluster-c1");
            let made = Bundle::new("default.web", spec);
            let made = bundles.create(&PostParams::default(), &made).await.unwrap();
            let observed = Arc::new(Observed::of(made).unwrap());
            let held: Held = Arc::new(Mutex::new(Some(Vec::new())));
            let (cache, client) = (Cache::default(), line(direct.clone(), fate, held.clone()));
            let writer = Writer {
                client: &client,
                cache: &cache,
                key: &key,
                epoch: 1,
                at_once: 1,
                places: &Semaphore::new(1),
            };
            // Its removal is not answered, and neither is the first try to be sure of that.
            let evidence = removal::evidence("web-v1", Deletion::GARBAGE_COLLECTION);
            let written = writer.remove(vec![(observed.clone(), evidence)]).await;
            assert!(
                written.error.is_some_and(|error| !error.is_conflict()),
                "{fate:?}"
            );
            assert_eq!(writer.fence().await.is_err(), fate == Fate::IsLate, "{fate:?}");
            let late = held.lock().take().unwrap();
            writer.fence().await.unwrap();
            let fenced = bundles.get("default.web").await.unwrap();
            let fence = fenced.annotations().get(annotation::FENCED);
            let expected = (fate == Fate::IsLate).then_some(&observed.resource_version);
            assert_eq!(fence, expected, "{fate:?}");
            for request in late {
                let answer = direct.send(request.map(Body::from)).await.unwrap();
                assert_eq!(answer.status(), http::StatusCode::CONFLICT, "{fate:?}");
            }
            writer.fence().await.unwrap();
            let after = bundles.get("default.web").await.unwrap();
            assert_eq!(after.resource_version(), fenced.resource_version(), "{fate:?}");
            assert_eq!(after.spec.deletion.is_some(), fate == Fate::Arrives, "{fate:?}");
        }
    }
}
