//! A small server with a few objects, and what every answer of it must be. Shared with the test of the API server that
//! replays the seeds.
#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    reason = "every target uses its own part, and fails by a panic"
)]

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use roundhouse_apiserver::Server;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Most frames read of a watch.
const FRAMES: usize = 64;

fn objects() -> [(&'static str, Value); 5] {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 0}, "color": {"type": "string", "default": "red"},
        "parts": {"type": "array", "maxItems": 9, "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        "x-kubernetes-validations": [{"rule": "self.size < 100", "message": "too large"}]},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]});
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    [
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({"metadata": {"name": "things.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
                "names": {"kind": "Thing", "plural": "things", "shortNames": ["th"]}, "versions": [version]}}),
        ),
        (
            "/apis/x.dev/v1/namespaces/default/things",
            json!({"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "a", "labels": {"l": "v"}}, "spec": {"size": 1}}),
        ),
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "a", "labels": {"l": "v"}, "finalizers": ["x.dev/hold"]}, "data": {"k": "v"}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}}),
        ),
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
    ]
}

/// Asks what a text says: a line with method and target, lines of headers, an empty line, the body.
pub(crate) fn answers(bytes: &[u8]) {
    let (head, body) = match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => bytes.split_at(at),
        None => (bytes, &[][..]),
    };
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    // What is no HTTP at all the HTTP library refuses before the server sees it.
    let Ok(request) = request.body(body.get(2..).unwrap_or_default().to_vec()) else {
        return;
    };
    let (code, media, answer) = ask(&server(), request);
    check(code, &media, &answer);
}

/// Lists and watches with a query string.
pub(crate) fn lists(query: &str) {
    let server = server();
    for path in ["/api/v1/configmaps", "/apis/x.dev/v1/namespaces/default/things"] {
        for (watch, shape) in [
            ("", "application/json"),
            ("", "application/json;as=Table;v=v1;g=meta.k8s.io"),
            ("watch=1&", "application/json"),
            (
                "watch=1&",
                "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            ),
        ] {
            let request = Request::get(format!("{path}?{watch}{query}")).header(header::ACCEPT, shape);
            let Ok(request) = request.body(vec![]) else { return };
            let (code, media, answer) = ask(&server, request);
            check(code, &media, &answer);
            if code != 200 {
                continue;
            }
            let answer = String::from_utf8_lossy(&answer);
            // A query can turn a list into a watch and the other way round.
            for line in answer.lines() {
                let value: Value =
                    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
                let known = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"];
                let is_event = known.iter().any(|ty| value["type"] == *ty) && value["object"].is_object();
                assert!(is_event || value["metadata"].is_object(), "{line}");
            }
        }
    }
}

/// A server with the objects; every one is the same.
fn server() -> Server {
    let clock = || jiff::Timestamp::UNIX_EPOCH;
    let server = Server::builder()
        .seed(1)
        .clock(std::sync::Arc::new(clock))
        .build();
    for (path, object) in objects() {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let request = request
            .body(object.to_string().into_bytes())
            .expect("parts are valid");
        let (code, _, answer) = ask(&server, request);
        assert_eq!(code, 201, "{path}: {}", String::from_utf8_lossy(&answer));
    }
    server
}

/// Asks; code, media type and body, of a watch as far as it has come.
fn ask(server: &Server, request: Request<Vec<u8>>) -> (u16, String, Bytes) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let response = server
            .service()
            .oneshot(request.map(Full::from))
            .await
            .expect("never fails");
        let code = response.status().as_u16();
        let media = response
            .headers()
            .get(header::CONTENT_TYPE)
            .map(|v| v.to_str().unwrap_or_default().to_owned());
        let (mut body, mut all) = (response.into_body(), vec![]);
        for _ in 0..FRAMES {
            let Some(Some(Ok(frame))) = body.frame().now_or_never() else {
                break;
            };
            all.extend_from_slice(frame.data_ref().expect("only data"));
        }
        (code, media.unwrap_or_default(), Bytes::from(all))
    })
}

/// What every answer must be.
fn check(code: u16, media: &str, answer: &[u8]) {
    assert!((200..600).contains(&code), "{code}");
    if code < 400 || media != "application/json" {
        // A Status in YAML is the same value.
        assert!(code < 500 || media == "application/yaml", "{code} in {media}");
        return;
    }
    let text = String::from_utf8_lossy(answer);
    let status: Value = serde_json::from_slice(answer).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(
        (&status["kind"], &status["code"]),
        (&json!("Status"), &json!(code)),
        "{text}"
    );
    assert_eq!(status["status"], "Failure", "{text}");
    assert!(
        status["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty()),
        "{text}"
    );
    // Kubernetes answers some mistakes of the client with 500 and no reason; an internal error never happens.
    assert_ne!(status["reason"], "InternalError", "{text}");
    assert!(
        status["reason"].is_string() || matches!(code, 414 | 500),
        "{text}"
    );
}
