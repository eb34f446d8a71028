//! Bounds of objects and lists, and what is said about fields that come twice.

use crate::raw::{MERGE, Raw};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::Method;
use roundhouse_apiserver::{Identity, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const MIB: usize = 1 << 20;

fn server() -> Raw {
    Raw::new(&Server::builder().seed(1).build())
}

#[tokio::test]
async fn config_maps_and_secrets_hold_a_mebibyte() {
    let raw = server();
    let text = |size: usize| "v".repeat(size);
    let coded = |size: usize| STANDARD.encode(vec![7; size]);
    for (path, name, content, expected) in [
        (
            MAPS,
            "fits",
            json!({"data": {"a": text(MIB - 3)}, "binaryData": {"b": coded(3)}}),
            "",
        ),
        (
            MAPS,
            "big",
            json!({"data": {"a": text(MIB - 3)}, "binaryData": {"b": coded(4)}}),
            "ConfigMap \"big\" is invalid: []: Too long: may not be more than 1048576 bytes",
        ),
        (SECRETS, "fits", json!({"data": {"a": coded(MIB)}}), ""),
        (
            SECRETS,
            "big",
            json!({"data": {"a": coded(MIB - 1)}, "stringData": {"b": "xy"}}),
            "Secret \"big\" is invalid: data: Too long: may not be more than 1048576 bytes",
        ),
    ] {
        let mut object = content;
        object["metadata"] = json!({"name": name});
        let (code, answer) = raw.post(path, object).await;
        if expected.is_empty() {
            assert_eq!(code, 201, "{path} {name}: {}", answer["message"]);
            let more = json!({"data": {"more": STANDARD.encode("abcd")}});
            assert_eq!(raw.merge(&format!("{path}/{name}"), more).await.0, 422, "{path}");
        } else {
            assert_eq!((code, answer["message"].as_str().unwrap()), (422, expected));
            assert_eq!(answer["details"]["causes"][0]["reason"], "FieldValueTooLong");
        }
    }
}

#[tokio::test]
async fn annotations_total_a_quarter_of_a_mebibyte() {
    let raw = server();
    let map = |name: &str, size: usize| json!({"metadata": {"name": name, "annotations": {"x.dev/a": "v".repeat(size - 7 - 7), "x.dev/b": ""}}});
    assert_eq!(raw.post(MAPS, map("fits", 256 << 10)).await.0, 201);
    let (code, refused) = raw.post(MAPS, map("big", (256 << 10) + 1)).await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            422,
            "ConfigMap \"big\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes"
        )
    );
    let more = json!({"metadata": {"annotations": {"x.dev/b": "v"}}});
    let (code, refused) = raw.merge(&format!("{MAPS}/fits"), more).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["field"]),
        (422, &json!("metadata.annotations"))
    );
}

#[tokio::test]
async fn fields_that_come_twice() {
    let raw = server();
    let body = r#"{"metadata": {"name": "one", "name": "one"}, "data": {"a": "1", "a": "2"}, "bogus": 1}"#;
    let (code, refused) = raw
        .ask(
            Method::POST,
            &format!("{MAPS}?fieldValidation=Strict"),
            "application/json",
            body,
        )
        .await;
    assert_eq!(
        (code, refused["message"].as_str().unwrap()),
        (
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"metadata.name\", duplicate field \"data.a\", unknown field \"bogus\""
        )
    );
    let warnings = |response: &http::Response<_>| -> Vec<String> {
        let all = response.headers().get_all("warning").iter();
        all.map(|v| v.to_str().unwrap().to_owned()).collect()
    };
    for (validation, expected) in [("Ignore", 0), ("Warn", 3)] {
        let path = format!("{MAPS}?dryRun=All&fieldValidation={validation}");
        let response = raw.send(Method::POST, &path, "application/json", body).await;
        assert_eq!(response.status().as_u16(), 201);
        assert_eq!(warnings(&response).len(), expected, "{validation}");
    }
    let response = raw.send(Method::POST, MAPS, "application/json", body).await;
    assert_eq!(
        warnings(&response).first().unwrap(),
        "299 - \"duplicate field \\\"metadata.name\\\"\""
    );
    let (_, made) = raw.get(&format!("{MAPS}/one")).await;
    assert_eq!(made["data"]["a"], "2");
    let patch = r#"{"data": {"a": "3", "a": "4"}}"#;
    let one = format!("{MAPS}/one");
    let strict = format!("{one}?fieldValidation=Strict");
    for media in [MERGE, "application/strategic-merge-patch+json"] {
        let (code, refused) = raw.ask(Method::PATCH, &strict, media, patch).await;
        let message = refused["message"].as_str().unwrap();
        assert_eq!(code, 422, "{media}: {message}");
        assert!(
            message.contains("strict decoding error: duplicate field \"data.a\""),
            "{message}"
        );
        let response = raw.send(Method::PATCH, &one, media, patch).await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(warnings(&response), ["299 - \"duplicate field \\\"data.a\\\"\""]);
    }
}

#[tokio::test]
async fn a_list_in_pages_says_how_many_are_left() {
    let raw = server();
    for i in 0..150 {
        let map = json!({"metadata": {"name": format!("m{i:03}"), "labels": {"a": "b"}}});
        assert_eq!(raw.post(MAPS, map).await.0, 201);
    }
    let left = |page: &Value| page["metadata"]["remainingItemCount"].as_u64();
    // Of a namespace, and of all.
    for all in [MAPS, "/api/v1/configmaps"] {
        let mut token = String::new();
        // A page that ends where the store's own does, too.
        for (limit, expected) in [(1, Some(149)), (64, Some(85)), (70, Some(15)), (15, None)] {
            let (code, page) = raw.get(&format!("{all}?limit={limit}&continue={token}")).await;
            assert_eq!((code, left(&page)), (200, expected), "{all} {limit}");
            assert_eq!(page["items"].as_array().unwrap().len(), limit);
            let next = &page["metadata"]["continue"];
            assert_eq!(next.is_null(), expected.is_none());
            token = next.as_str().unwrap_or_default().to_owned();
        }
        // What a token says of how many went before, nobody relies on.
        let (_, page) = raw.get(&format!("{all}?limit=1")).await;
        let next = page["metadata"]["continue"].as_str().unwrap();
        let mut told: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(next).unwrap()).unwrap();
        told["n"] = json!(u64::MAX);
        let token = URL_SAFE_NO_PAD.encode(told.to_string());
        let (code, page) = raw.get(&format!("{all}?limit=100&continue={token}")).await;
        assert_eq!((code, page["items"].as_array().unwrap().len()), (200, 100));
        assert!(page["metadata"]["continue"].is_string(), "the list goes on");
    }
    let (_, page) = raw.get(&format!("{MAPS}?limit=1&labelSelector=a%3Db")).await;
    assert_eq!(left(&page), None, "unknown with a selector");
    assert!(page["metadata"]["continue"].is_string());
}

#[tokio::test]
async fn a_continue_token_is_of_one_collection() {
    let raw = server();
    for name in ["a", "b", "c"] {
        raw.post(MAPS, json!({"metadata": {"name": name}})).await;
        raw.post(SECRETS, json!({"metadata": {"name": name}})).await;
    }
    let (_, page) = raw.get(&format!("{MAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (code, next) = raw.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, &next["items"][0]["metadata"]["name"]), (200, &json!("b")));
    for other in [
        SECRETS,
        "/api/v1/configmaps",
        "/api/v1/namespaces/kube-system/configmaps",
    ] {
        let (code, refused) = raw.get(&format!("{other}?limit=1&continue={token}")).await;
        assert_eq!(
            (code, refused["message"].as_str().unwrap()),
            (400, "continue key is not valid"),
            "{other}"
        );
    }
}

#[tokio::test]
async fn a_user_has_so_many_watches_open_and_no_more() {
    let server = Server::builder().seed(1).build();
    let user = |name: &str| Raw::as_somebody(&server, Some(Identity::new(name, ["people"])));
    let (jane, joe, admin) = (user("jane"), user("joe"), Raw::new(&server));
    let path = format!("{MAPS}?watch=true");
    let mut open = vec![];
    let refused = loop {
        let response = jane.send(Method::GET, &path, "", "").await;
        if response.status() != 200 {
            break response;
        }
        open.push(response);
    };
    assert_eq!(open.len(), 256);
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    let (_, status) = jane.get(&path).await;
    assert_eq!(
        (&status["reason"], &status["message"]),
        (
            &json!("TooManyRequests"),
            &json!(
                "user \"jane\" has 256 watches open, which is all it may have: end some, or try again later"
            )
        )
    );
    assert_eq!(jane.get(MAPS).await.0, 200, "lists are no watches");
    for other in [&joe, &admin] {
        assert_eq!(other.send(Method::GET, &path, "", "").await.status(), 200);
    }
    open.pop();
    assert_eq!(jane.send(Method::GET, &path, "", "").await.status(), 200);
}
