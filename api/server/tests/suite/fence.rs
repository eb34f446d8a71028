//! Writes of a term that is over.

use crate::raw::{MERGE, Raw};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use roundhouse_apiserver::{Server, TERM};
use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A request in a term; the code and what is said.
async fn within(
    raw: &Raw,
    term: &str,
    method: Method,
    path: &str,
    media: &str,
    body: Value,
) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, media)
        .header(TERM, term);
    let answer = raw
        .request(request.body(Full::from(body.to_string())).unwrap())
        .await;
    let code = answer.status().as_u16();
    let bytes: Bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    (code, value["message"].as_str().unwrap_or_default().to_owned())
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// A server on which this term of the Lease `hubs` has begun.
async fn in_term(epoch: &str) -> Raw {
    let raw = Raw::new(&Server::builder().build());
    let lease = json!({"metadata": {"name": "hubs", "annotations": {"roundhouse.dev/epoch": epoch}}});
    assert_eq!(raw.post(LEASES, lease).await.0, 201);
    raw
}

#[tokio::test]
async fn nothing_of_a_term_that_is_over_is_stored_whatever_it_is() {
    let raw = in_term("3").await;
    let json = "application/json";
    let post = async |term: &str, name: &str| within(&raw, term, Method::POST, MAPS, json, map(name)).await;
    assert_eq!(post("default/hubs=3", "present").await.0, 201);
    // A leader may know its epoch before anybody sees it.
    assert_eq!(post("default/hubs=4", "coming").await.0, 201);
    let turn = json!({"metadata": {"annotations": {"roundhouse.dev/epoch": "4"}}});
    assert_eq!(raw.merge(&format!("{LEASES}/hubs"), turn).await.0, 200);

    let (code, why) = post("default/hubs=3", "late").await;
    assert_eq!(code, 409, "{why}");
    assert_eq!(
        why,
        "this write is of term 3 of Lease default/hubs, and term 4 has begun: another one leads"
    );
    let path = format!("{MAPS}/present");
    let change = json!({"data": {"a": "b"}});
    for (method, media, body) in [
        (Method::PATCH, MERGE, change.clone()),
        (Method::PUT, json, map("present")),
        (Method::DELETE, json, json!({})),
    ] {
        let (code, why) = within(&raw, "default/hubs=3", method.clone(), &path, media, body).await;
        assert_eq!(code, 409, "{method} {why}");
    }
    assert_eq!(raw.get(&path).await.1["data"], Value::Null, "nothing was changed");
    assert_eq!(raw.get(&format!("{MAPS}/late")).await.0, 404);
    assert_eq!(post("default/hubs=4", "after").await.0, 201);
    let read = within(&raw, "default/hubs=3", Method::GET, &path, json, json!(null)).await;
    assert_eq!(read.0, 200, "reading is free");
    assert_eq!(raw.post(MAPS, map("anybody")).await.0, 201, "others have no term");
}

#[tokio::test]
async fn a_lease_that_says_no_epoch_is_no_later_term_and_a_header_that_says_none_is_refused() {
    let raw = in_term("soon").await;
    let post = async |term: &str, name: &str| {
        within(&raw, term, Method::POST, MAPS, "application/json", map(name)).await
    };
    assert_eq!(post("default/hubs=1", "a").await.0, 201);
    assert_eq!(post("default/none=1", "b").await.0, 201);
    let (code, why) = post("hubs", "c").await;
    assert_eq!((code, why.contains(TERM)), (400, true), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_writes_that_race_with_a_new_term_none_is_stored_after_it() {
    for round in 0..20 {
        let raw = std::sync::Arc::new(in_term("1").await);
        let late = (0..8).map(|n| {
            let raw = raw.clone();
            tokio::spawn(async move {
                let name = format!("w{n}");
                within(
                    &raw,
                    "default/hubs=1",
                    Method::POST,
                    MAPS,
                    "application/json",
                    map(&name),
                )
                .await
            })
        });
        let late: Vec<_> = late.collect();
        let turn = json!({"metadata": {"annotations": {"roundhouse.dev/epoch": "2"}}});
        let (_, lease) = raw.merge(&format!("{LEASES}/hubs"), turn).await;
        let version = |object: &Value| -> u64 {
            object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap()
        };
        let began = version(&lease);
        for write in late {
            let (code, why) = write.await.unwrap();
            assert!(matches!(code, 201 | 409), "{code} {why}");
        }
        for stored in raw.get(MAPS).await.1["items"].as_array().unwrap() {
            if stored["metadata"]["name"].as_str().unwrap().starts_with('w') {
                assert!(version(stored) < began, "round {round}: {stored}");
            }
        }
    }
}
