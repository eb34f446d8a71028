//! Whatever is sent, there is an answer in Kubernetes' terms.

use crate::raw::{MERGE, Raw};
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use roundhouse_apiserver::{Identity, Server};
use serde_json::{Value, json};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn bounds() {
    let raw = Raw::new(&Server::builder().build());
    let deep = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let deeper = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases = [
        (
            json!({"metadata": {"name": "a"}, "data": {"a": "v".repeat(3 << 20)}}).to_string(),
            413,
        ),
        (
            format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{deep}}}"),
            400,
        ),
        (deeper, 400),
        (
            json!({"metadata": {"name": "a", "annotations": {"a": "v".repeat(300_000)}}}).to_string(),
            422,
        ),
        (json!({"metadata": {"name": "a".repeat(254)}}).to_string(), 422),
        (json!({"metadata": []}).to_string(), 400),
        (json!([]).to_string(), 400),
        ("null".to_owned(), 400),
        ("\u{0}".to_owned(), 400),
    ];
    for (body, want) in cases {
        let short: String = body.chars().take(60).collect();
        let (code, status) = raw.ask(Method::POST, MAPS, "application/json", body).await;
        assert_eq!(
            (code, &status["kind"], &status["code"]),
            (want, &json!("Status"), &json!(want)),
            "{short}"
        );
    }
    let (code, _) = raw.get(&format!("{MAPS}/{}", "a".repeat(20_000))).await;
    assert_eq!(code, 414);
    let (code, status) = raw
        .ask(Method::POST, MAPS, "application/vnd.kubernetes.protobuf", "k8s\0")
        .await;
    assert_eq!((code, &status["reason"]), (415, &json!("UnsupportedMediaType")));
    let bomb = format!(
        "a: &a [x,x]\nb: &b [{}]\nc: [{}]",
        ["*a"; 200].join(","),
        ["*b"; 20_000].join(",")
    );
    let (code, _) = raw.ask(Method::POST, MAPS, "application/yaml", bomb).await;
    assert_eq!(code, 400);
}

#[tokio::test]
async fn too_many_at_once_are_told_to_come_back() {
    let server = Server::builder().build();
    let person = |name: &str| Raw::as_somebody(&server, Some(Identity::new(name, ["people"])));
    let (flooding, other, third) = (person("a"), person("b"), person("c"));
    // Bodies of any length that never come are as many as there are places: half of the writes are there for one user.
    let mut waiting = vec![];
    for (raw, most) in [(&flooding, 100), (&other, 100)] {
        for _ in 0..most {
            let mut pending = Box::pin(raw.stalled(MAPS, None));
            assert!(futures::poll!(&mut pending).is_pending());
            waiting.push(pending);
        }
        let response = raw.send(Method::POST, MAPS, "application/json", "{}").await;
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
        let status = raw.ask(Method::DELETE, MAPS, "application/json", "{}").await.1;
        assert_eq!(status["reason"], "TooManyRequests");
        // Reads, probes and administrators go on.
        assert_eq!(raw.get(MAPS).await.0, 200);
        assert_eq!(raw.get("/readyz").await.0, 200);
        assert_eq!(
            Raw::new(&server)
                .post(MAPS, json!({"metadata": {"generateName": "x"}}))
                .await
                .0,
            201
        );
    }
    let map = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(third.post(MAPS, map("a")).await.0, 429, "all places are taken");
    waiting.pop();
    assert_eq!(third.post(MAPS, map("a")).await.0, 201);
    assert_eq!(
        flooding.post(MAPS, map("b")).await.0,
        429,
        "its share is taken still"
    );
}

#[tokio::test]
async fn bodies_that_are_slow_to_come_keep_nobody_from_writing() {
    let server = Server::builder().build();
    let person = |name: &str| Raw::as_somebody(&server, Some(Identity::new(name, ["people"])));
    let slow: Vec<Raw> = (0..10).map(|i| person(&format!("slow-{i}"))).collect();
    let mut waiting = vec![];
    for raw in slow.iter().flat_map(|raw| std::iter::repeat_n(raw, 100)) {
        let mut pending = Box::pin(raw.stalled(MAPS, Some(2_000)));
        assert!(futures::poll!(&mut pending).is_pending());
        waiting.push(pending);
    }
    for raw in [&slow[0], &person("other")] {
        let map = json!({"metadata": {"generateName": "x"}});
        assert_eq!(raw.post(MAPS, map).await.0, 201);
    }
    let arriving = async || {
        let (_, metrics) = slow[0].ask(Method::GET, "/metrics", "", "").await;
        let of = |line: &str| {
            line.strip_prefix("apiserver_arriving_body_bytes ")?
                .parse::<u64>()
                .ok()
        };
        metrics.as_str().unwrap().lines().find_map(of)
    };
    assert_eq!(arriving().await, Some(2_000_000));
    drop(waiting);
    assert_eq!(arriving().await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn who_writes_without_a_pause_has_its_rate_and_nobody_else_waits() {
    let server = Server::builder().build();
    let person = |name: &str| Raw::as_somebody(&server, Some(Identity::new(name, ["people"])));
    let (flooding, other, admin) = (person("a"), person("b"), Raw::new(&server));
    let begin = tokio::time::Instant::now();
    let map = || json!({"metadata": {"generateName": "x"}});
    // 150 under way, always: each waits for its turn.
    let one = async || {
        let mut taken = 0;
        while begin.elapsed().as_secs() < 10 {
            let (code, status) = flooding.post(MAPS, map()).await;
            assert_eq!(code, 201, "{status}");
            taken += 1;
        }
        taken
    };
    let calm = async {
        let mut waited = vec![];
        while begin.elapsed().as_secs() < 10 {
            let at = tokio::time::Instant::now();
            assert_eq!(other.post(MAPS, map()).await.0, 201);
            assert_eq!(admin.post(MAPS, map()).await.0, 201);
            assert_eq!(flooding.get("/api/v1").await.0, 200);
            waited.push(at.elapsed());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        waited.into_iter().max().unwrap()
    };
    let flood = futures::future::join_all((0..150).map(|_| one()));
    let (flood, longest) = futures::join!(flood, calm);
    let taken: u32 = flood.into_iter().sum();
    assert!(
        (2_900..=3_300).contains(&taken),
        "{taken}: 1,000 at once and 200 a second"
    );
    assert_eq!(longest, std::time::Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_request_is_kept() {
    let raw = Raw::new(&Server::builder().build());
    let begin = tokio::time::Instant::now();
    let response = raw.stalled(&format!("{MAPS}?timeout=1s500ms"), None).await;
    assert_eq!(response.status(), 408);
    assert_eq!(begin.elapsed().as_millis(), 1_500);
    // No request may ask for more patience than there is.
    let begin = tokio::time::Instant::now();
    assert_eq!(
        raw.stalled(&format!("{MAPS}?timeout=1h"), None).await.status(),
        408
    );
    assert_eq!(begin.elapsed().as_secs(), 30);
    let (code, status) = raw.get(&format!("{MAPS}?timeout=soon")).await;
    assert_eq!(
        (code, status["message"].as_str().unwrap()),
        (
            400,
            "invalid timeout specified in the request URL - time: invalid duration \"soon\""
        )
    );
}

#[tokio::test]
async fn identities() {
    let server = Server::builder().build();
    let nobody = Raw::as_somebody(&server, None);
    assert_eq!(nobody.get("/healthz").await, (200, json!("ok")));
    for path in [MAPS, "/version", "/apis", "/openapi/v3", "/nope"] {
        let (code, status) = nobody.get(path).await;
        assert_eq!((code, &status["reason"]), (401, &json!("Unauthorized")), "{path}");
    }
    let agent = Raw::as_somebody(&server, Some(Identity::agent("east")));
    assert_eq!(agent.get("/apis").await.0, 200);
    let (code, status) = agent.get(MAPS).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    Raw::new(&server)
        .post(
            "/api/v1/namespaces",
            json!({"metadata": {"name": "cluster-east"}}),
        )
        .await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/cluster-east/leases";
    assert_eq!(
        agent.post(leases, json!({"metadata": {"name": "agent"}})).await.0,
        201
    );
    assert_eq!(agent.delete(&format!("{leases}/agent"), json!({})).await.0, 403);
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let ask = |namespace: &str| {
        json!({"spec": {"resourceAttributes":
            {"verb": "list", "group": "roundhouse.dev", "resource": "bundles", "namespace": namespace}}})
    };
    assert_eq!(
        agent.post(reviews, ask("cluster-east")).await.1["status"]["allowed"],
        true
    );
    assert_eq!(
        agent.post(reviews, ask("cluster-west")).await.1["status"]["allowed"],
        false
    );
}

#[tokio::test]
async fn answers_name_code_and_reason() {
    let raw = Raw::new(&Server::builder().build());
    raw.post(MAPS, json!({"metadata": {"name": "a"}})).await;
    let one = format!("{MAPS}/a");
    let table = [
        (Method::POST, "/api/v1/configmaps", "application/json", "{}", 405),
        (Method::PUT, MAPS, "application/json", "{}", 405),
        (Method::PATCH, one.as_str(), MERGE, "[]", 400),
        (Method::PATCH, one.as_str(), MERGE, "{\"kind\": \"Secret\"}", 422),
        (Method::PATCH, one.as_str(), MERGE, "{\"data\": {\"a\": 1}}", 422),
        (
            Method::PATCH,
            one.as_str(),
            "application/json-patch+json",
            "{}",
            400,
        ),
        (
            Method::PATCH,
            one.as_str(),
            "application/json-patch+json",
            "[{\"op\": \"remove\", \"path\": \"/none\"}]",
            422,
        ),
        (
            Method::PATCH,
            one.as_str(),
            "application/json-patch+json",
            "[{\"op\": \"replace\", \"path\": \"\", \"value\": 1}]",
            422,
        ),
        (
            Method::DELETE,
            one.as_str(),
            "application/json",
            "{\"kind\": \"Pod\"}",
            400,
        ),
        (
            Method::DELETE,
            one.as_str(),
            "application/json",
            "{\"propagationPolicy\": \"Up\"}",
            422,
        ),
        (
            Method::GET,
            "/api/v1/namespaces/default/configmaps/a/status",
            "",
            "",
            404,
        ),
        (
            Method::GET,
            "/apis/apps/v1/namespaces/default/deployments?limit=x",
            "",
            "",
            400,
        ),
        (Method::TRACE, MAPS, "", "", 405),
    ];
    for (method, path, media, body, want) in table {
        let (code, status) = raw.ask(method.clone(), path, media, body).await;
        assert_eq!(
            (code, &status["kind"]),
            (want, &json!("Status")),
            "{method} {path} {body} {status}"
        );
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z/.-]{0,8}|\\PC{0,6}".prop_map(Value::from),
    ];
    let key = "metadata|spec|status|data|name|namespace|labels|annotations|finalizers|ownerReferences|template|containers|\
        selector|matchLabels|ports|port|replicas|versions|schema|openAPIV3Schema|group|names|kind|apiVersion|\\$patch|\
        \\$setElementOrder/containers|resourceVersion|generateName|stringData|deletionTimestamp|op|path|value|[a-c]";
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..8)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn any_request_is_answered(
        method in prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE"]),
        plural in prop::sample::select(vec![
            "api/v1/namespaces/default/configmaps", "api/v1/namespaces/default/secrets", "api/v1/namespaces/default/services",
            "api/v1/namespaces/default/pods", "api/v1/namespaces", "apis/apps/v1/namespaces/default/deployments",
            "apis/apps/v1/namespaces/default/statefulsets", "apis/batch/v1/namespaces/default/jobs",
            "apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apis/authorization.k8s.io/v1/subjectaccessreviews",
        ]),
        tail in "|/a|/a/status|/a/scale|/[a-z%]{0,4}",
        query in "|labelSelector=[a-z=!,() ]{0,8}|dryRun=All|fieldManager=x&force=true|limit=[0-9]{1,3}&continue=[a-zA-Z0-9]{0,8}",
        media in prop::sample::select(vec![
            "application/json", "application/yaml", "application/merge-patch+json", "application/json-patch+json",
            "application/strategic-merge-patch+json", "application/apply-patch+yaml", "text/plain",
        ]),
        accept in prop::sample::select(vec!["application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io"]),
        seed in json_value(),
        body in json_value(),
    ) {
        let server = Server::builder().seed(1).build();
        let mut object = json!({"metadata": {"name": "a"}});
        for (value, method, media) in [(seed, "POST", "application/json"), (body, method, media)] {
            if let (Value::Object(map), Some(whole)) = (&value, object.as_object_mut()) {
                whole.extend(map.clone());
                whole.entry("metadata").or_insert_with(|| json!({"name": "a"}));
            }
            let payload = if method == "POST" { object.to_string() } else { value.to_string() };
            let path = if method == "POST" { format!("/{plural}") } else { format!("/{plural}{tail}") };
            let uri = format!("{path}?{}", query.replace(' ', "%20"));
            let Ok(uri) = uri.parse::<http::Uri>() else { continue };
            let request = Request::builder().method(method).uri(uri)
                .header(header::CONTENT_TYPE, media).header(header::ACCEPT, accept)
                .body(Full::from(payload)).expect("parts are valid");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            let (code, bytes) = runtime.block_on(async {
                let response = server.service().oneshot(request).await.expect("never fails");
                let code = response.status().as_u16();
                (code, response.into_body().collect().await.expect("never fails").to_bytes())
            });
            prop_assert!(!bytes.is_empty());
            // Kubernetes answers some mistakes of clients (a new object with a resource version) with 500 without a reason.
            let internal = code == 500 && String::from_utf8_lossy(&bytes).contains("InternalError");
            prop_assert!(!internal, "{method} {path}: internal error");
        }
    }
}
