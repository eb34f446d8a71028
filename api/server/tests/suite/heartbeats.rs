//! A disk that takes its time: heartbeats and reads are not kept out by the writes that wait for it.

use std::{io, path::Path, sync::Arc, time::Duration};

use crate::raw::{MERGE, Raw};
use http::Method;
use parking_lot::{Condvar, Mutex};
use roundhouse_apiserver::{
    Disk, DiskFile, DurableOptions, DurableStore, Folder, Identity, JournalError, Server,
};
use serde_json::json;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Syncs wait as long as it is closed.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn close(&self) {
        *self.closed.lock() = true;
    }

    fn open(&self) {
        *self.closed.lock() = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut closed = self.closed.lock();
        while *closed {
            self.opened.wait(&mut closed);
        }
    }
}

/// A test that fails does not hang.
struct Opens(Arc<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.open();
    }
}

struct Slow(Folder, Arc<Gate>);

struct SlowFile(Box<dyn DiskFile>, Arc<Gate>);

impl DiskFile for SlowFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, into)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.pass();
        self.0.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

impl Slow {
    fn at(path: &Path, gate: Arc<Gate>) -> Result<Self, JournalError> {
        Ok(Self(Folder::open(path)?, gate))
    }
}

impl Disk for Slow {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.0.list()
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(SlowFile(self.0.open(name)?, self.1.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn place(&self) -> String {
        self.0.place()
    }
}

/// Until so many requests of a kind are under way.
async fn until(server: &Server, kind: &str, count: usize) {
    let line = format!("apiserver_current_inflight_requests{{request_kind=\"{kind}\"}} {count}");
    let reader = Raw::as_somebody(server, Some(Identity::new("scraper", ["people"])));
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let (_, metrics) = reader.ask(Method::GET, "/metrics", "", "").await;
            if metrics.as_str().unwrap().lines().any(|l| l == line) {
                break;
            }
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{line}");
}

#[tokio::test]
async fn writes_that_wait_for_the_disk_keep_out_neither_heartbeats_nor_reads() {
    let directory = tempfile::tempdir().unwrap();
    // The files it writes to are there already: only those that are opened again wait.
    drop(DurableStore::open(directory.path(), DurableOptions::default()).unwrap());
    let gate = Arc::<Gate>::default();
    let slow = Slow::at(directory.path(), gate.clone()).unwrap();
    let store = DurableStore::on(Arc::new(slow), DurableOptions::default()).unwrap();
    let server = Server::builder().store(Arc::new(store)).build();
    let admin = Raw::new(&server);
    let path = |cluster: &str| format!("/apis/coordination.k8s.io/v1/namespaces/cluster-{cluster}/leases");
    for cluster in ["c1", "c2"] {
        let namespace = json!({"metadata": {"name": format!("cluster-{cluster}")}});
        assert_eq!(admin.post("/api/v1/namespaces", namespace).await.0, 201);
        let lease = json!({"metadata": {"name": "agent"}});
        assert_eq!(admin.post(&path(cluster), lease).await.0, 201);
    }
    let _opens = Opens(gate.clone());
    gate.close();
    let mut writes = JoinSet::new();
    for user in ["a", "b"] {
        for i in 0..100 {
            let raw = Raw::as_somebody(&server, Some(Identity::new(user, ["people"])));
            writes.spawn(async move {
                let map = json!({"metadata": {"name": format!("{user}{i}")}});
                raw.post(MAPS, map).await.0
            });
        }
    }
    until(&server, "mutating", 200).await;
    let other = Raw::as_somebody(&server, Some(Identity::new("c", ["people"])));
    assert_eq!(other.post(MAPS, json!({"metadata": {"name": "c"}})).await.0, 429);
    // Reads of what has not changed are answered, and heartbeats are let in.
    assert_eq!(other.get("/api/v1/namespaces").await.0, 200);
    let mut beats = JoinSet::new();
    let mut beat = |cluster: &'static str| {
        let raw = Raw::as_somebody(&server, Some(Identity::agent(cluster)));
        let one = format!("{}/agent", path(cluster));
        beats.spawn(async move {
            let renewed = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}});
            raw.ask(Method::PATCH, &one, MERGE, renewed.to_string()).await.0
        });
    };
    for _ in 0..8 {
        beat("c1");
    }
    until(&server, "lease", 8).await;
    // One agent has so many under way; the next has its own.
    let c1 = Raw::as_somebody(&server, Some(Identity::agent("c1")));
    let one = format!("{}/agent", path("c1"));
    assert_eq!(
        c1.merge(&one, json!({"spec": {"holderIdentity": "x"}})).await.0,
        429
    );
    beat("c2");
    until(&server, "lease", 9).await;
    gate.open();
    assert_eq!(beats.join_all().await, [200; 9]);
    assert_eq!(writes.join_all().await, [201; 200]);
    assert_eq!(
        c1.merge(&one, json!({"spec": {"holderIdentity": "x"}})).await.0,
        200
    );
    let large = json!({"metadata": {"annotations": {"a": "v".repeat(256 << 10)}}});
    let (code, status) = c1.merge(&one, large).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")));
}
