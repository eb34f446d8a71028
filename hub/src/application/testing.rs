//! What tests of writes start from.

use super::{Key, bundles::Writer, cache::Cache};
use crate::run::{HubOptions, install};
use http::{Response, StatusCode};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::PostParams, client::Body};
use roundhouse_api::{
    bundle::{ApplicationRef, Bundle, BundleSpec},
    names::BUNDLE_FINALIZER,
};
use roundhouse_apiserver::Server;
use serde_json::json;
use tokio::sync::Semaphore;

/// An API server with the hub's definitions, and a client of it.
pub(super) async fn api_server() -> (Server, Client) {
    let server = Server::builder().seed(1).strict().build();
    let client = Client::new(server.service(), "default");
    install(&client, &HubOptions::default()).await.unwrap();
    (server, client)
}

/// Makes a namespace, and says where its Bundles are.
pub(super) async fn bundles_in(client: &Client, name: &str) -> Api<Bundle> {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    Api::namespaced(client.clone(), name)
}

/// `default.web`, a Bundle of this application.
pub(super) fn bundle(application: &Key) -> Bundle {
    let spec = BundleSpec {
        application_ref: Some(ApplicationRef {
            namespace: application.0.clone(),
            name: application.1.clone(),
            uid: "a".to_owned(),
        }),
        ..BundleSpec::default()
    };
    let mut bundle = Bundle::new("default.web", spec);
    bundle.metadata.finalizers = Some(vec![BUNDLE_FINALIZER.to_owned()]);
    bundle
}

/// Writes one Bundle at a time, in the first term.
pub(super) fn writer<'a>(
    client: &'a Client,
    cache: &'a Cache,
    key: &'a Key,
    places: &'a Semaphore,
) -> Writer<'a> {
    Writer {
        client,
        cache,
        key,
        epoch: 1,
        at_once: 1,
        places,
    }
}

/// An API server refuses something.
pub(crate) fn refusal(code: u16, message: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
        "message": message});
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
