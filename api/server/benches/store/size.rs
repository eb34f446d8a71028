//! Memory, each measured in a process of its own.

use bytes::Bytes;
use roundhouse_apiserver::{Change, Expect, Key, MemoryStore, Server, Store, StoreLimits};
use std::{process::Command, sync::Arc};

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

const MEMBERS: u64 = 1_000;
const OBJECTS: u64 = 100_000;

pub(crate) fn child(part: &str) {
    let before = resident();
    match part {
        "members" => {
            let all: Vec<Server> = (0..MEMBERS).map(|_| Server::builder().build()).collect();
            println!("{}", (resident() - before) / MEMBERS);
            drop(all);
        }
        "objects" => {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreLimits::default()));
            let table = "configmaps".into();
            for n in 0..OBJECTS {
                let key = Key::new(&table, "default", &format!("object-{n}"));
                let bytes = Bytes::from(crate::content(n).repeat(3));
                store
                    .write(&key, Expect::Absent, Change::Put(&mut |_| bytes.clone()))
                    .unwrap();
            }
            println!("{}", resident() / 1_024);
        }
        _ => {}
    }
}

pub(crate) fn measure() {
    let ask = |part: &str| {
        let output = Command::new(std::env::current_exe().unwrap())
            .arg(format!("child-{part}"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    println!(
        "{:<44} {:>10} KiB (target 150)",
        "an empty server in memory, of 1,000",
        ask("members")
    );
    println!(
        "{:<44} {:>10} MiB (target 600)",
        "100,000 objects of 3 KiB in memory",
        ask("objects")
    );
}
