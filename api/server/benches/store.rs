//! The figures of the embedded API server: `cargo bench -p roundhouse-apiserver --bench store`.
//!
//! Everything durable is on the file system of the temporary directory (`TMPDIR`), with etcd on the same one in the same run
//! where its binary is on the PATH or named by `ETCD`. A tmpfs there would measure nothing. Words behind `--` choose parts:
//! `durable`, `etcd`, `http`, `memory`, `watch`, `size`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark may stop on a broken machine"
)]

#[path = "store/etcd.rs"]
mod etcd;
#[path = "store/fanout.rs"]
mod fanout;
#[path = "store/http.rs"]
mod over_http;
#[path = "store/size.rs"]
mod size;

use bytes::Bytes;
use roundhouse_apiserver::{
    Authority, Change, DurableOptions, DurableStore, Expect, Key, MemoryStore, Store, StoreLimits,
};
use std::{
    fs::File,
    io::Write as _,
    os::unix::fs::FileExt as _,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// How long each rate is measured.
pub(crate) const TIME: Duration = Duration::from_secs(5);
/// Bytes of an object.
const OBJECT: usize = 1_024;
/// Objects that are written again and again.
const OBJECTS: u64 = 10_000;
/// Different contents that there are. No divisor of the 64 clients, so that each client goes through all of them.
const CONTENTS_MADE: u64 = 1_021;

/// Something of a kilobyte that does not compress: one of a few that are made beforehand, so that what makes the load costs
/// little beside what bears it.
pub(crate) fn content(n: u64) -> &'static str {
    static CONTENTS: LazyLock<Vec<String>> = LazyLock::new(|| (0..CONTENTS_MADE).map(made).collect());
    &CONTENTS[usize::try_from(n % CONTENTS_MADE).unwrap_or(0)]
}

fn made(n: u64) -> String {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        char::from(b'a' + u8::try_from(x % 26).unwrap_or(0))
    };
    (0..OBJECT).map(letter).collect()
}

/// The name of an object.
pub(crate) fn name(n: u64) -> String {
    format!("object-{:08}", n.wrapping_mul(7_919) % OBJECTS)
}

/// Writes done and the time they took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) u64, pub(crate) Duration);

impl Rate {
    pub(crate) fn per_second(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let writes = self.0 as f64;
        writes / self.1.as_secs_f64()
    }
}

pub(crate) fn tell(what: &str, rate: Rate) {
    println!("{what:<44} {:>10.0} /s", rate.per_second());
}

/// What was measured of ours beside etcd's, where it was.
fn compare(ours: Option<Rate>, theirs: Rate, what: &str, target: f64) {
    if let Some(ours) = ours {
        let ratio = ours.per_second() / theirs.per_second();
        println!("{what:<44} {ratio:>10.3} times etcd (target {target})");
    }
}

/// How often a kilobyte can be made durable, one after the other, in a file whose blocks are there.
fn fdatasync(home: &TempDir) -> Rate {
    let mut file = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(home.path().join("raw"))
        .unwrap();
    file.write_all(&vec![0; 16 << 20]).unwrap();
    file.sync_all().unwrap();
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        file.write_all_at(content(n).as_bytes(), n * 1_024 % (16 << 20))
            .unwrap();
        file.sync_data().unwrap();
        n += 1;
    }
    Rate(n, start.elapsed())
}

fn put(store: &dyn Store, name: &str, n: u64) -> u64 {
    let key = Key::new(&"configmaps".into(), "default", name);
    let expect = match store.get(&key) {
        Some(record) => Expect::Revision(record.revision),
        None => Expect::Absent,
    };
    let bytes = Bytes::copy_from_slice(content(n).as_bytes());
    store
        .write(&key, expect, Change::Put(&mut |_| bytes.clone()))
        .unwrap()
        .revision
}

/// One writer on a thread of its own, waiting until each write is durable.
fn writer(store: &dyn Store) -> Rate {
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        let revision = put(store, &name(n), n);
        store.settle_here(revision).unwrap();
        n += 1;
    }
    Rate(n, start.elapsed())
}

/// Writers at the store, each waiting until its write is durable.
async fn writers(store: Arc<dyn Store>, writers: u64) -> Rate {
    let count = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, count) = (store.clone(), count.clone());
            tokio::spawn(async move {
                let mut n = writer;
                while start.elapsed() < TIME {
                    // Each has names of its own.
                    let revision = put(&*store, &format!("{}-{writer}", name(n)), n);
                    store.settle(revision).await.unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    n += writers;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    Rate(count.load(Ordering::Relaxed), start.elapsed())
}

fn durable(home: &TempDir, name: &str) -> Arc<dyn Store> {
    Arc::new(DurableStore::open(&home.path().join(name), DurableOptions::default()).unwrap())
}

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    if let Some(part) = words.iter().find_map(|word| word.strip_prefix("child-")) {
        return size::child(part);
    }
    let wants = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let home = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        let (mut one, mut many) = (None, None);
        if wants("durable") {
            tell("fdatasync of 1 KiB", fdatasync(&home));
            let single = writer(&*durable(&home, "single"));
            tell("durable store, 1 writer", single);
            tell("durable store, 1 task", writers(durable(&home, "task"), 1).await);
            let sixty_four = writers(durable(&home, "many"), 64).await;
            tell("durable store, 64 writers", sixty_four);
            (one, many) = (Some(single), Some(sixty_four));
        }
        let authority = Authority::generate(over_http::now()).unwrap();
        let mut peer = None;
        if wants("etcd") {
            match etcd::Etcd::start(home.path(), None).await {
                Ok(server) => {
                    let (single, sixty_four) = (server.puts(1).await, server.puts(64).await);
                    tell("etcd, 1 client", single);
                    tell("etcd, 64 clients", sixty_four);
                    compare(one, single, "durable store, 1 writer", 3.0);
                    compare(many, sixty_four, "durable store, 64 writers", 5.0);
                }
                Err(reason) => println!("etcd is not measured: {reason}"),
            }
            match etcd::Etcd::start(home.path(), Some(&authority)).await {
                Ok(server) => {
                    let rate = server.puts(64).await;
                    tell("etcd over TLS, 64 clients", rate);
                    peer = Some(rate);
                }
                Err(reason) => println!("etcd is not measured over TLS: {reason}"),
            }
        }
        if wants("http") {
            let rate = over_http::creates(&home, &authority).await;
            tell("durable server, creates over HTTPS, 64 clients", rate);
            if let Some(peer) = peer {
                compare(Some(rate), peer, "creates over HTTPS, 64 clients", 1.0);
            }
        }
        if wants("memory") {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreLimits::default()));
            tell("store in memory, 1 writer", writers(store, 1).await);
            tell(
                "server in memory, creates in process",
                over_http::in_process().await,
            );
        }
        if wants("watch") {
            fanout::measure().await;
        }
    });
    if wants("size") {
        size::measure();
    }
}
