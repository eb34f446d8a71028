//! Counts the write requests that go through a client.

use super::Metrics;
use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use tower::service_fn;

/// The resources that the hub writes. What users name (a step that applies an object) counts as `other`.
const RESOURCES: [&str; 18] = [
    "applications",
    "applicationrevisions",
    "bundles",
    "clusterreports",
    "clusters",
    "configmaps",
    "customresourcedefinitions",
    "decisions",
    "events",
    "leases",
    "namespaces",
    "placements",
    "rolebindings",
    "roles",
    "secrets",
    "serviceaccounts",
    "clusterroles",
    "clusterrolebindings",
];

impl Metrics {
    /// A client whose writes are counted.
    pub fn counting(&self, client: Client) -> Client {
        let metrics = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (client, metrics) = (client.clone(), metrics.clone());
            async move {
                let Some(verb) = verb(request.method()) else {
                    return client.send(request).await;
                };
                let resource = resource(request.uri().path());
                let answer = client.send(request).await;
                metrics.requested(
                    resource,
                    verb,
                    outcome(answer.as_ref().ok().map(Response::status)),
                );
                answer
            }
        });
        Client::new(service, namespace)
    }
}

fn verb(method: &Method) -> Option<&'static str> {
    match *method {
        Method::POST => Some("create"),
        Method::PUT => Some("update"),
        Method::PATCH => Some("patch"),
        Method::DELETE => Some("delete"),
        _ => None,
    }
}

/// `conflict` is apart: it is how two writers find out about each other, and no trouble.
fn outcome(status: Option<StatusCode>) -> &'static str {
    match status {
        Some(status) if status.is_success() => "ok",
        Some(StatusCode::CONFLICT) => "conflict",
        Some(_) => "refused",
        None => "unanswered",
    }
}

/// The resource of a path, such as `bundles` of `/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles/default.web`.
fn resource(path: &str) -> &'static str {
    let mut words = path.split('/').filter(|word| !word.is_empty());
    let behind = match words.next() {
        Some("api") => words.next(),
        Some("apis") => words.nth(1),
        _ => None,
    };
    let mut plural = behind.and_then(|_| words.next());
    if plural == Some("namespaces")
        && let Some(inside) = words.nth(1)
        && !matches!(inside, "status" | "finalize")
    {
        plural = Some(inside);
    }
    let known = RESOURCES.iter().find(|known| Some(**known) == plural);
    known.copied().unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_the_resource() {
        for (path, expected) in [
            (
                "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/bundles/ns.web",
                "bundles",
            ),
            (
                "/apis/core.oam.dev/v1beta1/namespaces/ns/applications/web/status",
                "applications",
            ),
            ("/api/v1/namespaces/ns/events", "events"),
            ("/api/v1/namespaces", "namespaces"),
            ("/api/v1/namespaces/ns", "namespaces"),
            ("/api/v1/namespaces/ns/status", "namespaces"),
            ("/apis/roundhouse.dev/v1alpha1/clusters/c1/status", "clusters"),
            (
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                "customresourcedefinitions",
            ),
            ("/apis/example.com/v1/namespaces/ns/widgets/w", "other"),
            ("/version", "other"),
            ("", "other"),
        ] {
            assert_eq!(resource(path), expected, "{path}");
        }
    }

    #[tokio::test]
    async fn writes_are_counted_and_reads_are_not() {
        use k8s_openapi::api::core::v1::ConfigMap;
        use kube::{Api, api::PostParams};
        let server = roundhouse_apiserver::Server::builder().build();
        let metrics = Metrics::default();
        let client = metrics.counting(Client::new(server.service(), "default"));
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        maps.create(&PostParams::default(), &map).await.unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap_err();
        maps.get("a").await.unwrap();
        map.metadata.name = Some("No Name".to_owned());
        maps.create(&PostParams::default(), &map).await.unwrap_err();
        let text = metrics.render();
        let mut written: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("roundhouse_writes_total"))
            .collect();
        written.sort_unstable();
        assert_eq!(
            written,
            [
                "roundhouse_writes_total{resource=\"configmaps\",verb=\"create\",outcome=\"conflict\"} 1",
                "roundhouse_writes_total{resource=\"configmaps\",verb=\"create\",outcome=\"ok\"} 1",
                "roundhouse_writes_total{resource=\"configmaps\",verb=\"create\",outcome=\"refused\"} 1",
            ]
        );
    }
}
