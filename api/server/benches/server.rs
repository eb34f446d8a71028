//! What one request costs in process, from bytes to bytes, and one write at the store:
//! `cargo bench -p roundhouse-apiserver --bench server`.
//!
//! The promise is 50,000 creates a second in memory, by two tasks: see `store.rs` for that, and for what is measured beside etcd.

#![allow(missing_docs, reason = "criterion's macro makes a public function")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop on a broken case")]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use roundhouse_apiserver::{
    Change, DurableOptions, DurableStore, Expect, Key, MemoryStore, Server, Store, StoreLimits,
};
use serde_json::json;
use std::{hint::black_box, time::Duration};
use tokio::{runtime::Runtime, time::Instant};
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn map(name: &str, content: &str) -> Vec<u8> {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"content": content}})
        .to_string()
        .into()
}

async fn ask(server: &Server, method: Method, path: &str, media: &str, body: Vec<u8>) -> (StatusCode, Bytes) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Full::from(body))
        .unwrap();
    let answer = server.service().oneshot(request).await.unwrap();
    let status = answer.status();
    (status, answer.into_body().collect().await.unwrap().to_bytes())
}

/// A server with so many ConfigMaps of a kilobyte.
fn filled(runtime: &Runtime, objects: usize) -> Server {
    let server = Server::builder().build();
    runtime.block_on(async {
        for n in 0..objects {
            let body = map(&format!("map-{n}"), &"x".repeat(1_000));
            let (status, _) = ask(&server, Method::POST, MAPS, "application/json", body).await;
            assert_eq!(status, StatusCode::CREATED);
        }
    });
    server
}

fn requests(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("server in memory");
    group.throughput(Throughput::Elements(1));
    group.bench_function("create of 1 KiB", |bencher| {
        bencher.iter_custom(|times| {
            // A fresh one each time: a server that only grows is another server.
            let server = filled(&runtime, 0);
            let bodies = (0..times).map(|n| map(&format!("map-{n}"), &"x".repeat(1_000)));
            let bodies: Vec<_> = bodies.collect();
            runtime.block_on(async {
                let start = Instant::now();
                for body in bodies {
                    let (status, _) = ask(&server, Method::POST, MAPS, "application/json", body).await;
                    assert_eq!(status, StatusCode::CREATED);
                }
                start.elapsed()
            })
        });
    });
    let server = filled(&runtime, 500);
    let one = format!("{MAPS}/map-7");
    let mut turn = 0_u64;
    let mut next = || {
        turn += 1;
        format!("turn {turn}")
    };
    let json = "application/json";
    let mut bench =
        |name: &str, method: Method, path: &str, media: &str, body: &mut dyn FnMut() -> Vec<u8>| {
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let (status, answer) =
                        runtime.block_on(ask(&server, method.clone(), path, media, body()));
                    assert!(status.is_success(), "{answer:?}");
                    black_box(answer)
                });
            });
        };
    bench("get", Method::GET, &one, json, &mut Vec::new);
    bench("list of 500", Method::GET, MAPS, json, &mut Vec::new);
    bench("replace", Method::PUT, &one, json, &mut || map("map-7", &next()));
    let merge = "application/merge-patch+json";
    bench("merge patch", Method::PATCH, &one, merge, &mut || {
        json!({"data": {"content": next()}}).to_string().into()
    });
    let apply = format!("{one}?fieldManager=bench&force=true");
    let media = "application/apply-patch+yaml";
    bench("server-side apply", Method::PATCH, &apply, media, &mut || {
        map("map-7", &next())
    });
    group.finish();
}

fn put(store: &dyn Store, n: u64) -> u64 {
    let key = Key::new(&"configmaps".into(), "default", &format!("object-{}", n % 10_000));
    let expect = match store.get(&key) {
        Some(record) => Expect::Revision(record.revision),
        None => Expect::Absent,
    };
    let bytes = Bytes::from(vec![b'x'; 1_024]);
    let wrote = store.write(&key, expect, Change::Put(&mut |_| bytes.clone()));
    wrote.unwrap().revision
}

fn writes(criterion: &mut Criterion) {
    let home = tempfile::tempdir().unwrap();
    let durable = DurableStore::open(&home.path().join("store"), DurableOptions::default()).unwrap();
    let memory = MemoryStore::new(StoreLimits::default());
    let stores: [(&str, &dyn Store); 2] = [("in memory", &memory), ("durable", &durable)];
    let mut group = criterion.benchmark_group("write of 1 KiB at the store");
    group.throughput(Throughput::Elements(1));
    for (name, store) in stores {
        let mut n = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                n += 1;
                store.settle_here(put(store, n)).unwrap();
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = server;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = requests, writes
}
criterion_main!(server);
