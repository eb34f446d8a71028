//! A real API server behind a delivery, where `KUBEBUILDER_ASSETS` names one. No controllers need to run there: who needs them
//! stays on the embedded one.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt,
    config::{KubeConfigOptions, Kubeconfig},
};
use roundhouse_api::{
    application::Application,
    bundle::Bundle,
    clock::{Clock, SystemClock},
    decision::Decision,
    revision::ApplicationRevision,
};
use roundhouse_apiserver::envtest::{self, Envtest};
use serde::de::DeserializeOwned;
use std::hash::{DefaultHasher, Hash, Hasher};
use tokio::sync::{Mutex, MutexGuard};

/// One test with a real server at a time: each is two programs of some hundred MiB.
static TURN: Mutex<()> = Mutex::const_new(());

/// A real API server that is ready; it ends with this.
pub(crate) struct Real {
    pub(crate) client: Client,
    _server: Envtest,
    _turn: MutexGuard<'static, ()>,
}

/// Starts a real API server; `None` where the environment names none. Time, which the test has paused, goes on from here.
pub(crate) async fn server() -> Option<Real> {
    let assets = envtest::assets()?;
    tokio::time::resume();
    let turn = TURN.lock().await;
    // A second installation could only be this one again.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut server = Envtest::start(&assets, SystemClock.now()).unwrap();
    let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let answers = async || {
        let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
        client.request_text(request).await.is_ok()
    };
    server.until_ready(answers).await.unwrap();
    Some(Real {
        client,
        _server: server,
        _turn: turn,
    })
}

impl Real {
    /// A mark of what the hub writes of an application: another one after any write.
    pub(crate) async fn mark(&self) -> u64 {
        let mut mark = DefaultHasher::new();
        versions::<Application>(&self.client, &mut mark).await;
        versions::<ApplicationRevision>(&self.client, &mut mark).await;
        versions::<Bundle>(&self.client, &mut mark).await;
        versions::<Decision>(&self.client, &mut mark).await;
        versions::<ConfigMap>(&self.client, &mut mark).await;
        mark.finish()
    }
}

async fn versions<K>(client: &Client, mark: &mut DefaultHasher)
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let listed = Api::<K>::all(client.clone())
        .list_metadata(&Default::default())
        .await;
    for object in listed.unwrap().items {
        (object.uid(), object.resource_version()).hash(mark);
    }
}
