//! What is recorded of who wrote what, and of who was refused.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use crate::raw::Raw;
use http::{Method, Request};
use http_body_util::Full;
use jiff::Timestamp;
use parking_lot::Mutex;
use roundhouse_apiserver::{AuditSink, DurableOptions, DurableStore, Identity, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

#[derive(Default)]
struct Events(Mutex<Vec<Value>>, AtomicBool);

impl AuditSink for Events {
    fn record(&self, event: &Value) {
        self.0.lock().push(event.clone());
    }

    fn is_busy(&self) -> bool {
        self.1.load(Ordering::SeqCst)
    }
}

impl Events {
    fn taken(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// A server that records, and what it recorded.
struct Audited {
    server: Server,
    events: Arc<Events>,
    seconds: Arc<AtomicI64>,
    directory: Option<TempDir>,
}

impl Audited {
    fn new(directory: Option<TempDir>) -> Self {
        let events = Arc::<Events>::default();
        let seconds = Arc::<AtomicI64>::default();
        let clock = seconds.clone();
        let builder = Server::builder()
            .seed(1)
            .clock(Arc::new(move || {
                let seconds = clock.load(Ordering::SeqCst);
                Timestamp::from_millisecond(1_800_000_000_250 + seconds * 1_000).unwrap()
            }))
            .rbac()
            .audit(events.clone());
        let builder = match &directory {
            Some(directory) => {
                let store = DurableStore::open(directory.path(), DurableOptions::default()).unwrap();
                builder.store(Arc::new(store))
            }
            None => builder,
        };
        Self {
            server: builder.build(),
            events,
            seconds,
            directory,
        }
    }

    fn advance(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }

    /// What was recorded: who, what, of which object, with which answer.
    fn lines(&self) -> Vec<String> {
        let line = |e: &Value| {
            let words = [
                &e["user"]["username"],
                &e["verb"],
                &e["objectRef"]["resource"],
                &e["objectRef"]["subresource"],
                &e["objectRef"]["name"],
            ];
            let words: Vec<&str> = words.iter().map(|w| w.as_str().unwrap_or("-")).collect();
            format!("{} {}", words.join(" "), e["responseStatus"]["code"])
        };
        self.events.taken().iter().map(line).collect()
    }
}

/// One with its objects in memory, one with them on a disk.
fn servers() -> [Audited; 2] {
    let durable = Audited::new(Some(tempfile::tempdir().unwrap()));
    [Audited::new(None), durable]
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_write_is_recorded_as_kubernetes_records_it() {
    for Audited {
        server,
        events,
        directory,
        ..
    } in servers()
    {
        assert_eq!(
            events.taken(),
            Vec::<Value>::new(),
            "the server's own writes are not"
        );
        a_write_is_recorded(&server, &events).await;
        drop((server, directory));
    }
}

async fn a_write_is_recorded(server: &Server, events: &Events) {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{MAPS}?fieldManager=m"))
        .header("content-type", "application/json")
        .header("user-agent", "kubectl/v1.36")
        .header("audit-id", "mine-1")
        .header("impersonate-user", "jane")
        .header("impersonate-group", "system:masters")
        .body(Full::from(r#"{"metadata": {"generateName": "a-"}}"#));
    let response = Raw::new(server).request(request.unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["audit-id"]),
        (201, &"mine-1".parse().unwrap())
    );
    let mut event = events.taken().remove(0);
    let reference = event["objectRef"].take();
    assert!(
        reference["name"].as_str().unwrap().starts_with("a-") && reference["uid"].is_string(),
        "{reference}"
    );
    assert_eq!(
        (
            &reference["resource"],
            &reference["namespace"],
            &reference["apiVersion"]
        ),
        (&json!("configmaps"), &json!("default"), &json!("v1"))
    );
    assert_eq!(
        event,
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "mine-1",
            "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/default/configmaps?fieldManager=m",
            "verb": "create", "user": {"username": "roundhouse:admin", "groups": ["system:masters", "system:authenticated"]},
            "impersonatedUser": {"username": "jane", "groups": ["system:masters"]}, "userAgent": "kubectl/v1.36",
            "objectRef": null, "responseStatus": {"metadata": {}, "code": 201},
            "requestReceivedTimestamp": "2027-01-15T08:00:00.250000Z", "stageTimestamp": "2027-01-15T08:00:00.250000Z",
        })
    );
}

#[tokio::test]
async fn writes_and_refusals_are_recorded_reads_and_reviews_are_not() {
    for audited in servers() {
        what_is_recorded(&audited).await;
    }
}

async fn what_is_recorded(audited: &Audited) {
    let server = &audited.server;
    let admin = Raw::new(server);
    let jane = Raw::as_somebody(server, Some(Identity::new("jane", ["people"])));
    let nobody = Raw::as_somebody(server, None);
    let what = || audited.lines();
    admin.get(MAPS).await;
    admin.get("/version").await;
    admin.get("/api/v1/nope").await;
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    admin
        .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        .await;
    nobody.get("/healthz").await;
    assert_eq!(what(), Vec::<String>::new());
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    admin.post(leases, json!({"metadata": {"name": "l"}})).await;
    admin
        .merge(
            &format!("{leases}/l"),
            json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}),
        )
        .await;
    jane.merge(&format!("{leases}/l"), json!({})).await;
    assert_eq!(
        what(),
        [
            "roundhouse:admin create leases - l 201",
            "jane patch leases - l 403"
        ],
        "renewals are not recorded unless they are refused"
    );
    admin.post(MAPS, json!({"metadata": {"name": "a"}})).await;
    admin.post(MAPS, json!({"metadata": {"name": "a"}})).await;
    admin
        .merge(&format!("{MAPS}/a"), json!({"data": {"secret": "value"}}))
        .await;
    admin.delete(&format!("{MAPS}/a"), json!({})).await;
    admin.delete(MAPS, json!({})).await;
    admin.merge("/api/v1/namespaces/default/status", json!({})).await;
    jane.get(&format!("{MAPS}/a")).await;
    jane.get("/metrics").await;
    jane.get_with(MAPS, &[("impersonate-user", "root")]).await;
    nobody.get(MAPS).await;
    nobody.post(MAPS, json!({"metadata": {"name": "b"}})).await;
    assert_eq!(
        what(),
        [
            "roundhouse:admin create configmaps - a 201",
            "roundhouse:admin create configmaps - - 409",
            "roundhouse:admin patch configmaps - a 200",
            "roundhouse:admin delete configmaps - a 200",
            "roundhouse:admin deletecollection configmaps - - 200",
            "roundhouse:admin patch namespaces status default 200",
            "jane get configmaps - a 403",
            "jane get - - - 403",
            "jane list configmaps - - 403",
            "- list configmaps - - 401",
            "- create configmaps - - 401",
        ]
    );
}

#[tokio::test]
async fn ids_are_made_where_there_is_none_that_fits() {
    let Audited { server, events, .. } = Audited::new(None);
    let long = "x".repeat(65);
    for id in ["", "a b", long.as_str(), "a\u{e9}"] {
        let mut request = Request::delete(format!("{MAPS}/a"));
        if !id.is_empty() {
            request = request.header("audit-id", id.as_bytes());
        }
        let response = Raw::new(&server)
            .request(request.body(Full::default()).unwrap())
            .await;
        let given = response.headers()["audit-id"].to_str().unwrap().to_owned();
        assert_eq!(given.len(), 36, "{given}");
        assert_eq!(events.taken()[0]["auditID"], given);
    }
}

#[tokio::test]
async fn bodies_are_not_recorded() {
    let Audited { server, events, .. } = Audited::new(None);
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    Raw::new(&server)
        .post("/api/v1/namespaces/default/secrets", secret)
        .await;
    let text = events.taken()[0].to_string();
    assert!(
        !text.contains("hunter2") && !text.contains("password") && !text.contains("aHVudGVyMg"),
        "{text}"
    );
}

#[tokio::test]
async fn that_a_lease_changes_hands_is_recorded_and_renewals_are_not() {
    for audited in servers() {
        let admin = Raw::new(&audited.server);
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
        let lease = |holder: &str, renewed: &str| {
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"},
                "spec": {"holderIdentity": holder, "renewTime": renewed}})
        };
        let one = format!("{leases}/leader");
        let apply = format!("{one}?fieldManager=m&force=true");
        let media = "application/apply-patch+yaml";
        let time = |n: u32| format!("2026-01-01T00:00:0{n}.000000Z");
        admin.post(leases, lease("a", &time(0))).await;
        let put = async |holder: &str, renewed: &str| {
            let mut new = lease(holder, renewed);
            let (_, old) = admin.get(&one).await;
            new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            admin.put(&one, new).await.0
        };
        let mut codes = vec![];
        for n in 1..4 {
            codes.push(put("a", &time(n)).await);
            codes.push(
                admin
                    .merge(&one, json!({"spec": {"renewTime": time(n + 3)}}))
                    .await
                    .0,
            );
            let applied = lease("a", &time(n + 6)).to_string();
            codes.push(admin.ask(Method::PATCH, &apply, media, applied).await.0);
        }
        assert_eq!(audited.lines(), ["roundhouse:admin create leases - leader 201"]);
        codes.push(put("b", &time(1)).await);
        codes.push(
            admin
                .merge(&one, json!({"spec": {"holderIdentity": "c"}}))
                .await
                .0,
        );
        let applied = lease("d", &time(2)).to_string();
        codes.push(admin.ask(Method::PATCH, &apply, media, applied).await.0);
        codes.push(
            admin
                .merge(&one, json!({"spec": {"holderIdentity": null}}))
                .await
                .0,
        );
        assert_eq!(codes, [200; 13]);
        // What was only tried changed nothing.
        admin
            .merge(
                &format!("{one}?dryRun=All"),
                json!({"spec": {"holderIdentity": "e"}}),
            )
            .await;
        assert_eq!(
            audited.lines(),
            [
                "roundhouse:admin update leases - leader 200",
                "roundhouse:admin patch leases - leader 200",
                "roundhouse:admin patch leases - leader 200",
                "roundhouse:admin patch leases - leader 200",
            ]
        );
    }
}

#[tokio::test]
async fn a_flood_of_refusals_leaves_room_for_what_was_written() {
    for audited in servers() {
        let admin = Raw::new(&audited.server);
        let jane = Raw::as_somebody(&audited.server, Some(Identity::new("jane", ["people"])));
        let nobody = Raw::as_somebody(&audited.server, None);
        for i in 0..200 {
            assert_eq!(jane.get(MAPS).await.0, 403);
            assert_eq!(nobody.post(MAPS, json!({"metadata": {"name": "a"}})).await.0, 401);
            let made = json!({"metadata": {"name": format!("m{i}")}});
            assert_eq!(admin.post(MAPS, made).await.0, 201);
        }
        let lines = audited.lines();
        let of = |what: &str| lines.iter().filter(|line| line.starts_with(what)).count();
        assert_eq!(
            (of("jane list"), of("- create"), of("roundhouse:admin create")),
            (30, 30, 200)
        );
        // The next one says how many were left out.
        audited.advance(10);
        jane.get(MAPS).await;
        let events = audited.events.taken();
        assert_eq!(
            (
                events.len(),
                &events[0]["annotations"]["roundhouse.dev/refusals-left-out"]
            ),
            (1, &json!("170"))
        );
        // If there is no next one, another line of the log is the occasion.
        audited.advance(60);
        admin.delete(&format!("{MAPS}/m0"), json!({})).await;
        let events = audited.events.taken();
        assert_eq!(events.len(), 2, "{events:?}");
        assert_eq!(
            (
                &events[0]["verb"],
                &events[0]["annotations"]["roundhouse.dev/refusals-left-out"],
                events[0]["responseStatus"]["message"].as_str().unwrap()
            ),
            (
                &json!("refused"),
                &json!("170"),
                "170 more requests of this source were refused since 2027-01-15T08:00:00.25Z and not recorded"
            )
        );
        assert_eq!(events[1]["verb"], "delete");
    }
}

#[tokio::test]
async fn where_nothing_more_can_be_recorded_nothing_more_is_written() {
    let Audited { server, events, .. } = Audited::new(None);
    let admin = Raw::new(&server);
    admin
        .post(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"metadata": {"name": "l"}}),
        )
        .await;
    events.1.store(true, Ordering::SeqCst);
    let map = json!({"metadata": {"name": "a"}});
    assert_eq!(admin.post(MAPS, map.clone()).await.0, 429);
    assert_eq!(admin.get(MAPS).await.0, 200);
    let renewed = admin
        .merge(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases/l",
            json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}),
        )
        .await;
    assert_eq!(renewed.0, 200, "heartbeats go on");
    events.1.store(false, Ordering::SeqCst);
    assert_eq!(admin.post(MAPS, map).await.0, 201);
}
