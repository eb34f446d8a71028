//! Watches: resuming, falling behind, bookmarks, ends.

use crate::raw::Raw;
use http::{Method, Request};
use http_body_util::Full;
use roundhouse_apiserver::{ApiBody, Server, StoreLimits};
use serde_json::{Value, json};
use std::{ops::Range, time::Duration};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn watch(raw: &Raw, query: &str) -> ApiBody {
    let response = raw
        .send(Method::GET, &format!("{MAPS}?watch=true&{query}"), "", "")
        .await;
    assert_eq!(response.status(), 200);
    response.into_body()
}

async fn make(raw: &Raw, name: &str) -> String {
    let (code, made) = raw.post(MAPS, json!({"metadata": {"name": name}})).await;
    assert_eq!(code, 201);
    made["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

fn shown(line: &Value) -> (&str, &str) {
    (
        line["type"].as_str().unwrap(),
        line["object"]["metadata"]["name"].as_str().unwrap_or_default(),
    )
}

/// A server whose watches have room for four events.
fn narrow() -> Server {
    let limits = StoreLimits {
        watch_buffer: 4,
        ..StoreLimits::default()
    };
    Server::builder().limits(limits).build()
}

async fn tells(lines: &mut ApiBody, names: impl IntoIterator<Item = String>) {
    for name in names {
        let line = Raw::line(lines).await.unwrap();
        assert_eq!(shown(&line), ("ADDED", name.as_str()), "{line}");
    }
}

fn numbered(numbers: Range<u32>) -> impl Iterator<Item = String> {
    numbers.map(|i| format!("m{i}"))
}

/// How many watches the server has cut off.
async fn cut_off(raw: &Raw) -> u32 {
    let (_, metrics) = raw.get("/metrics").await;
    let mut lines = metrics.as_str().unwrap().lines();
    let count = lines.find_map(|line| line.strip_prefix("apiserver_watch_cut_off_total "));
    count.unwrap().parse().unwrap()
}

/// Whoever asks for metadata alone gets what is in the object, and the object's own fields of that name are none of it.
#[tokio::test]
async fn a_watch_of_metadata_tells_that_of_the_object() {
    let raw = Raw::new(&narrow());
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let one = format!("{MAPS}/one");
    let made =
        json!({"metadata": {"name": "one", "annotations": {"say": "\"}},{é"}}, "data": {"metadata": "none"}});
    let (_, made) = raw.post(MAPS, made).await;
    let request = Request::get(format!("{MAPS}?watch=true&resourceVersion=0")).header("accept", accept);
    let response = raw.request(request.body(Full::default()).unwrap()).await;
    let mut lines = response.into_body();
    let (_, changed) = raw.merge(&one, json!({"data": {"a": "b"}})).await;
    raw.ask(Method::DELETE, &one, "", "").await;
    for (ty, object) in [("ADDED", &made), ("MODIFIED", &changed), ("DELETED", &changed)] {
        let mut line = Raw::line(&mut lines).await.unwrap();
        let mut metadata = object["metadata"].clone();
        if ty == "DELETED" {
            // It went at a version of its own.
            let version = |of: &Value| of["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
            let went = line["object"]["metadata"]["resourceVersion"].take();
            assert_eq!(went.as_str().unwrap().parse(), Ok(version(&metadata) + 1));
            line["object"]["metadata"]["resourceVersion"] = metadata["resourceVersion"].take();
            metadata["resourceVersion"] = line["object"]["metadata"]["resourceVersion"].clone();
        }
        let object =
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata});
        assert_eq!(line, json!({"type": ty, "object": object}));
    }
}

/// However little room there is for it: a client that had to list again would take in everything for a thousand changes.
#[tokio::test]
async fn a_watcher_that_falls_behind_goes_on_from_the_history_and_misses_nothing() {
    let raw = Raw::new(&narrow());
    let before = make(&raw, "before").await;
    let mut slow = watch(&raw, &format!("resourceVersion={before}")).await;
    for name in numbered(0..30) {
        make(&raw, &name).await;
    }
    tells(&mut slow, numbered(0..10)).await;
    // Of other namespaces, and of other kinds, it hears nothing on the way.
    raw.post("/api/v1/namespaces", json!({"metadata": {"name": "other"}}))
        .await;
    let elsewhere = json!({"metadata": {"name": "elsewhere"}});
    for _ in 0..2 {
        raw.post("/api/v1/namespaces/other/configmaps", elsewhere.clone())
            .await;
    }
    for name in numbered(30..40) {
        make(&raw, &name).await;
    }
    tells(&mut slow, numbered(10..40)).await;
    // It is no more behind, and told at once.
    make(&raw, "m40").await;
    tells(&mut slow, numbered(40..41)).await;
    // Who resumes has the same pieces.
    let mut resumed = watch(&raw, &format!("resourceVersion={before}")).await;
    tells(&mut resumed, numbered(0..41)).await;
    make(&raw, "m41").await;
    tells(&mut resumed, numbered(41..42)).await;
    tells(&mut slow, numbered(41..42)).await;
    assert_eq!(cut_off(&raw).await, 0);
}

#[tokio::test]
async fn a_watcher_that_falls_further_behind_than_the_history_is_cut_off_and_others_are_not() {
    let limits = StoreLimits {
        watch_buffer: 4,
        history_events: 6,
        ..StoreLimits::default()
    };
    let raw = Raw::new(&Server::builder().limits(limits).build());
    let (mut slow, mut quick) = (
        watch(&raw, "resourceVersion=0").await,
        watch(&raw, "resourceVersion=0").await,
    );
    for i in 0..11 {
        make(&raw, &format!("m{i}")).await;
        tells(&mut quick, numbered(i..i + 1)).await;
    }
    tells(&mut slow, numbered(0..4)).await;
    let end = Raw::line(&mut slow).await.unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert!(Raw::line(&mut slow).await.is_none());
    assert_eq!(cut_off(&raw).await, 1);
}

/// A server that stops ends those that are behind, too.
#[tokio::test]
async fn a_watcher_that_is_behind_when_all_are_ended_ends() {
    let server = narrow();
    let raw = Raw::new(&server);
    let before = make(&raw, "before").await;
    let from = format!("resourceVersion={before}");
    let mut overrun = watch(&raw, &from).await;
    for name in numbered(0..10) {
        make(&raw, &name).await;
    }
    let mut piece = watch(&raw, &from).await;
    server.close_watches();
    for lines in [&mut overrun, &mut piece] {
        tells(lines, numbered(0..4)).await;
        assert!(Raw::line(lines).await.is_none());
    }
    // Who comes after that is served.
    let mut later = watch(&raw, &from).await;
    tells(&mut later, numbered(0..10)).await;
    make(&raw, "m10").await;
    tells(&mut later, numbered(10..11)).await;
}

/// One that is always behind comes to its end nevertheless.
#[tokio::test]
async fn a_watcher_that_is_behind_when_its_time_is_over_ends_where_it_is() {
    let raw = Raw::new(&narrow());
    let before = make(&raw, "before").await;
    let asked = format!("resourceVersion={before}&timeoutSeconds=1&allowWatchBookmarks=true");
    let mut slow = watch(&raw, &asked).await;
    let mut fourth = String::new();
    for name in numbered(0..10) {
        let version = make(&raw, &name).await;
        if name == "m3" {
            fourth = version;
        }
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    tells(&mut slow, numbered(0..4)).await;
    let last = Raw::line(&mut slow).await.unwrap();
    assert_eq!(
        (&last["type"], &last["object"]["metadata"]["resourceVersion"]),
        (&json!("BOOKMARK"), &json!(fourth))
    );
    assert!(Raw::line(&mut slow).await.is_none());
}

#[tokio::test]
async fn history_is_bounded_and_what_it_lost_is_gone() {
    let limits = StoreLimits {
        history_events: 8,
        ..StoreLimits::default()
    };
    let raw = Raw::new(&Server::builder().limits(limits).build());
    let first = make(&raw, "first").await;
    for i in 0..8 {
        make(&raw, &format!("m{i}")).await;
    }
    let mut resumed = watch(&raw, &format!("resourceVersion={first}")).await;
    assert_eq!(shown(&Raw::line(&mut resumed).await.unwrap()), ("ADDED", "m0"));
    make(&raw, "one-more").await;
    let mut late = watch(&raw, &format!("resourceVersion={first}")).await;
    assert_eq!(Raw::line(&mut late).await.unwrap()["object"]["reason"], "Expired");
    let page = raw.get(&format!("{MAPS}?limit=1")).await.1;
    for i in 0..9 {
        make(&raw, &format!("n{i}")).await;
    }
    let token = page["metadata"]["continue"].as_str().unwrap();
    let (code, gone) = raw.get(&format!("{MAPS}?limit=1&continue={token}")).await;
    assert_eq!((code, &gone["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn pages_are_of_one_revision() {
    let raw = Raw::new(&Server::builder().build());
    for name in ["a", "b", "c", "d"] {
        make(&raw, name).await;
    }
    let (_, first) = raw.get(&format!("{MAPS}?limit=2")).await;
    raw.delete(&format!("{MAPS}/c"), json!({})).await;
    raw.merge(&format!("{MAPS}/d"), json!({"data": {"new": "1"}}))
        .await;
    make(&raw, "e").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = raw.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    let names: Vec<&str> = second["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        (names.as_slice(), &second["items"][1]["data"]),
        (["c", "d"].as_slice(), &Value::Null)
    );
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert_eq!(second["metadata"]["continue"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn bookmarks_name_what_was_seen() {
    let raw = Raw::new(&Server::builder().build());
    let mut body = watch(
        &raw,
        "resourceVersion=0&allowWatchBookmarks=true&labelSelector=none&timeoutSeconds=90",
    )
    .await;
    let last = make(&raw, "unseen").await;
    for _ in ["after a minute", "at the end"] {
        let mark = Raw::line(&mut body).await.unwrap();
        assert_eq!(
            (&mark["type"], &mark["object"]["metadata"]["resourceVersion"]),
            (&json!("BOOKMARK"), &json!(last))
        );
    }
    assert!(Raw::line(&mut body).await.is_none());
}

#[tokio::test]
async fn watches_of_other_namespaces_and_kinds_are_not_disturbed() {
    let server = Server::builder().build();
    let raw = Raw::new(&server);
    let here = watch(&raw, "resourceVersion=0").await;
    let elsewhere = raw
        .send(
            Method::GET,
            "/api/v1/namespaces/other/configmaps?watch=1&resourceVersion=0",
            "",
            "",
        )
        .await;
    let all = raw
        .send(
            Method::GET,
            "/api/v1/configmaps?watch=1&resourceVersion=0",
            "",
            "",
        )
        .await;
    let secrets = raw
        .send(Method::GET, "/api/v1/secrets?watch=1&resourceVersion=0", "", "")
        .await;
    make(&raw, "a").await;
    server.close_watches();
    let mut counts = vec![];
    for mut body in [here, elsewhere.into_body(), all.into_body(), secrets.into_body()] {
        let mut count = 0;
        while Raw::line(&mut body).await.is_some() {
            count += 1;
        }
        counts.push(count);
    }
    assert_eq!(counts, [1, 0, 1, 0]);
}

#[tokio::test]
async fn what_waits_for_a_watch_is_bounded_in_bytes_too() {
    let raw = Raw::new(&Server::builder().build());
    let mut body = watch(&raw, "resourceVersion=0").await;
    make(&raw, "large").await;
    let mut sent = 1;
    // Far fewer events than would fill it by their number, and more than the history has of that size.
    for i in 0..200 {
        let data = json!({"data": {"a": format!("{i}{}", "v".repeat(1 << 19))}});
        assert_eq!(raw.merge(&format!("{MAPS}/large"), data).await.0, 200);
        sent += 1;
    }
    let mut lines = 0;
    let end = loop {
        let line = Raw::line(&mut body).await.unwrap();
        if line["type"] == "ERROR" {
            break line;
        }
        lines += 1;
    };
    assert_eq!(end["object"]["code"], 410);
    assert!((120..sent).contains(&lines), "{lines}");
    // Who reads is not cut off, however much there is.
    let mut body = watch(&raw, "resourceVersion=0").await;
    Raw::line(&mut body).await.unwrap();
    for i in 0..40 {
        let data = json!({"data": {"a": format!("{i}{}", "w".repeat(1 << 19))}});
        assert_eq!(raw.merge(&format!("{MAPS}/large"), data).await.0, 200);
        assert_eq!(Raw::line(&mut body).await.unwrap()["type"], "MODIFIED");
    }
}
