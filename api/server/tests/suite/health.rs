//! Probes and metrics.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::raw::Raw;
use http::Method;
use http_body_util::BodyExt;
use roundhouse_apiserver::{AuditSink, Identity, Server};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn text(raw: &Raw, path: &str) -> (u16, String) {
    let response = raw.send(Method::GET, path, "", "").await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn probes_answer_in_the_words_of_kubernetes() {
    let server = Server::builder().build();
    let nobody = Raw::as_somebody(&server, None);
    let table = [
        ("/healthz", 200, "ok"),
        ("/livez/ping", 200, "ok"),
        ("/readyz/shutdown", 200, "ok"),
        (
            "/readyz?verbose",
            200,
            "[+]ping ok\n[+]store ok\n[+]shutdown ok\nreadyz check passed\n",
        ),
        (
            "/livez?verbose=true&exclude=store",
            200,
            "[+]ping ok\n[+]store excluded: ok\nlivez check passed\n",
        ),
        (
            "/healthz?verbose&exclude=nope&exclude=none",
            200,
            "[+]ping ok\n[+]store ok\nwarn: some health checks cannot be excluded: no matches for \"nope\",\"none\"\nhealthz check passed\n",
        ),
    ];
    for (path, code, expected) in table {
        assert_eq!(text(&nobody, path).await, (code, expected.to_owned()), "{path}");
    }
    for path in ["/livez/shutdown", "/readyz/nope", "/healthz/a/b"] {
        let (code, body) = text(&nobody, path).await;
        assert!(matches!(code, 401 | 404), "{path}: {code} {body}");
    }
}

#[tokio::test]
async fn a_shutdown_turns_readiness_and_nothing_else() {
    let server = Server::builder().build();
    let raw = Raw::new(&server);
    assert_eq!(text(&raw, "/readyz").await.0, 200);
    server.begin_shutdown();
    let failed = "[+]ping ok\n[+]store ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n";
    assert_eq!(text(&raw, "/readyz").await, (500, failed.to_owned()));
    assert_eq!(
        text(&raw, "/readyz/shutdown").await,
        (
            500,
            "internal server error: process is shutting down\n".to_owned()
        )
    );
    assert_eq!(text(&raw, "/readyz?exclude=shutdown").await.0, 200);
    assert_eq!(text(&raw, "/livez").await.0, 200);
    assert_eq!(raw.get(MAPS).await.0, 200);
}

#[tokio::test]
async fn metrics_tell_what_happened() {
    let server = Server::builder().build();
    let raw = Raw::new(&server);
    for name in ["a", "b", "a"] {
        raw.post(MAPS, json!({"metadata": {"name": name}})).await;
    }
    raw.get(MAPS).await;
    let mut watch = raw
        .send(Method::GET, &format!("{MAPS}?watch=1"), "", "")
        .await
        .into_body();
    for _ in 0..2 {
        Raw::line(&mut watch).await.unwrap();
    }
    let (code, metrics) = text(&raw, "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        "apiserver_request_total{verb=\"create\",resource=\"configmaps\",code=\"201\"} 2",
        "apiserver_request_total{verb=\"create\",resource=\"configmaps\",code=\"409\"} 1",
        "apiserver_request_total{verb=\"watch\",resource=\"configmaps\",code=\"200\"} 1",
        "apiserver_request_duration_seconds_count{verb=\"create\"} 3",
        "apiserver_watchers{resource=\"configmaps\"} 1",
        "apiserver_watch_events_total{resource=\"configmaps\"} 2",
        "apiserver_watch_cut_off_total 0",
        "apiserver_current_inflight_requests{request_kind=\"exempt\"} 1",
        "apiserver_storage_objects{resource=\"configmaps\"} 2",
        "apiserver_storage_objects{resource=\"namespaces\"} 4",
    ] {
        assert!(
            metrics.lines().any(|l| l == line),
            "{line} is missing in\n{metrics}"
        );
    }
    let revision = format!("apiserver_storage_revision {}", server.revision());
    assert!(metrics.contains(&revision), "{metrics}");
    drop(watch);
    let (_, metrics) = text(&raw, "/metrics").await;
    assert!(
        metrics.contains("apiserver_watchers{resource=\"configmaps\"} 0"),
        "{metrics}"
    );
    assert_eq!(Raw::as_somebody(&server, None).get("/metrics").await.0, 401);
    // What nobody serves makes no series.
    Raw::as_somebody(&server, Some(Identity::admin()))
        .get("/apis/made.up/v1/things")
        .await;
    assert!(!text(&raw, "/metrics").await.1.contains("things"));
}

#[tokio::test]
async fn refused_writes_are_counted_by_reason() {
    let events = Arc::<Full>::default();
    let server = Server::builder().rbac().audit(events.clone()).build();
    let admin = Raw::new(&server);
    let jane = Raw::as_somebody(&server, Some(Identity::new("jane", ["people"])));
    let nobody = Raw::as_somebody(&server, None);
    let map = || json!({"metadata": {"name": "a"}});
    for (who, body, code) in [
        (&admin, map(), 201),
        (&admin, map(), 409),
        (&admin, json!({"metadata": {"name": "A"}}), 422),
        (&admin, json!({"kind": 1}), 422),
        (&jane, map(), 403),
        (&jane, map(), 403),
        (&nobody, map(), 401),
    ] {
        assert_eq!(who.post(MAPS, body).await.0, code);
    }
    events.0.store(true, Ordering::SeqCst);
    assert_eq!(admin.post(MAPS, map()).await.0, 429);
    // What is only read is not counted.
    jane.get(MAPS).await;
    let (_, metrics) = text(&admin, "/metrics").await;
    let counted: Vec<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("apiserver_refused_writes_total"))
        .collect();
    let mut counted = counted;
    counted.sort_unstable();
    assert_eq!(
        counted,
        [
            "{reason=\"admission\"} 2",
            "{reason=\"conflict\"} 1",
            "{reason=\"flow\"} 1",
            "{reason=\"forbidden\"} 2",
            "{reason=\"unauthorized\"} 1",
        ]
    );
}

/// An audit log that has no room, when it is told so.
#[derive(Default)]
struct Full(AtomicBool);

impl AuditSink for Full {
    fn record(&self, _: &serde_json::Value) {}

    fn is_busy(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
