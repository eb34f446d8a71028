//! Somebody asks for as much at once as they can.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use parking_lot::Mutex;
use roundhouse_apiserver::Identity;
use roundhouse_hub::simulate::run::{Act, Look};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use tower::{Service, ServiceExt};

/// Requests of one flood.
pub(crate) const FLOOD: usize = 300;

/// How often each code was answered. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codes(Arc<Mutex<BTreeMap<u16, usize>>>);

impl Codes {
    /// How often this one was.
    pub(crate) fn of(&self, code: u16) -> usize {
        self.0.lock().get(&code).copied().unwrap_or(0)
    }
}

/// Somebody asks for so much at once as they can; what is answered is counted.
pub(crate) fn flood(
    who: Identity,
    codes: &Codes,
    request: impl Fn(usize) -> Request<Full<Bytes>> + Send + Sync + 'static,
) -> Look {
    let (request, codes) = (Arc::new(request), codes.clone());
    Look::new(move |fleet| {
        let (who, request, codes) = (who.clone(), request.clone(), codes.clone());
        Box::pin(async move {
            let server = fleet.hub_server().map_err(|error| error.to_string())?;
            for n in 0..FLOOD {
                let mut service = server.service_as(Some(who.clone()));
                let service = ServiceExt::<Request<Full<Bytes>>>::ready(&mut service)
                    .await
                    .unwrap();
                let (answer, codes) = (service.call(request(n)), codes.clone());
                tokio::spawn(async move {
                    let code = answer.await.unwrap().status().as_u16();
                    *codes.0.lock().entry(code).or_default() += 1;
                });
            }
            Ok(())
        })
    })
}

pub(crate) fn json_to(method: Method, path: &str, media: &str, body: &Value) -> Request<Full<Bytes>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media);
    request.body(Full::from(body.to_string())).unwrap()
}

/// Somebody who works with what is in the namespace `default`.
pub(crate) fn tenant() -> Identity {
    Identity::new("somebody", ["tenants"])
}

/// Tenants are let in.
pub(crate) fn tenants_come() -> Act {
    Act::Apply(
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "tenants", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "tenants"}]}),
    )
}

/// A tenant creates one object of so many bytes after the other.
pub(crate) fn creates(flood: u32, n: usize, bytes: usize) -> Request<Full<Bytes>> {
    let map =
        json!({"metadata": {"name": format!("flood-{flood}-{n}")}, "data": {"text": "x".repeat(bytes)}});
    json_to(
        Method::POST,
        "/api/v1/namespaces/default/configmaps",
        "application/json",
        &map,
    )
}
