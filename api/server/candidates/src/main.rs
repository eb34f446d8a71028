//! How fast embedded engines make changes durable, and what they say of a flipped bit:
//! `cargo run --release`, on a real file system (`TMPDIR`). What came of it is in README.md.
//!
//! Each change is an object of a kilobyte by key and an entry of a history of 10,000 by revision, as the durable store needs
//! them. `64 writers` are threads whose changes one committer takes together (group commit).

use std::{
    error::Error,
    fs::{self, File, OpenOptions},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const TIME: Duration = Duration::from_secs(4);
const HISTORY: u64 = 10_000;
const OBJECTS: u64 = 10_000;

/// Revision, key and content.
type Change = (u64, Vec<u8>, Vec<u8>);

trait Engine: Send {
    /// Makes some changes durable in one step.
    fn commit(&mut self, changes: &[Change]) -> Result<()>;
}

fn change(revision: u64) -> Change {
    let mut x = revision.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        b'a' + (x % 26) as u8
    };
    let content = (0..1_024).map(letter).collect();
    let key = format!(
        "configmaps/default/object-{:08}",
        revision.wrapping_mul(7_919) % OBJECTS
    );
    (revision, key.into_bytes(), content)
}

/// The floor: one write into a file whose blocks are there, and one sync.
struct Raw {
    file: File,
    at: u64,
}

const RAW: u64 = 256 << 20;

impl Raw {
    fn open(path: &Path) -> Result<Self> {
        let mut file = OpenOptions::new()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path.join("raw"))?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..RAW >> 20 {
            file.write_all(&zeros)?;
        }
        file.sync_all()?;
        Ok(Self { file, at: 0 })
    }
}

impl Engine for Raw {
    fn commit(&mut self, changes: &[Change]) -> Result<()> {
        let mut bytes = vec![];
        for (revision, key, content) in changes {
            bytes.extend(revision.to_le_bytes());
            bytes.extend(key);
            bytes.extend(content);
        }
        if self.at + bytes.len() as u64 > RAW {
            self.at = 0;
        }
        self.file.write_all_at(&bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(self.file.sync_data()?)
    }
}

struct Redb {
    database: redb::Database,
    quick_repair: bool,
}

const REDB_OBJECTS: redb::TableDefinition<&[u8], &[u8]> = redb::TableDefinition::new("objects");
const REDB_HISTORY: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("history");

impl Engine for Redb {
    fn commit(&mut self, changes: &[Change]) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(self.quick_repair);
        {
            let mut objects = transaction.open_table(REDB_OBJECTS)?;
            let mut history = transaction.open_table(REDB_HISTORY)?;
            for (revision, key, content) in changes {
                objects.insert(&key[..], &content[..])?;
                history.insert(*revision, &key[..])?;
                if let Some(old) = revision.checked_sub(HISTORY) {
                    history.remove(old)?;
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

struct Sqlite(rusqlite::Connection);

impl Sqlite {
    fn open(path: &Path) -> Result<Self> {
        let connection = rusqlite::Connection::open(path.join("db"))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.execute_batch(
            "create table if not exists objects(key blob primary key, content blob) without rowid;
             create table if not exists history(revision integer primary key, key blob);",
        )?;
        Ok(Self(connection))
    }
}

impl Engine for Sqlite {
    fn commit(&mut self, changes: &[Change]) -> Result<()> {
        let transaction = self.0.transaction()?;
        {
            let mut put = transaction.prepare_cached("insert or replace into objects values(?1, ?2)")?;
            let mut note = transaction.prepare_cached("insert into history values(?1, ?2)")?;
            let mut drop = transaction.prepare_cached("delete from history where revision = ?1")?;
            for (revision, key, content) in changes {
                put.execute((key, content))?;
                note.execute((*revision as i64, key))?;
                drop.execute((*revision as i64 - HISTORY as i64,))?;
            }
        }
        Ok(transaction.commit()?)
    }
}

struct Fjall {
    database: fjall::Database,
    objects: fjall::Keyspace,
    history: fjall::Keyspace,
}

impl Fjall {
    fn open(path: &Path) -> Result<Self> {
        let database = fjall::Database::builder(path).open()?;
        let objects = database.keyspace("objects", fjall::KeyspaceCreateOptions::default)?;
        let history = database.keyspace("history", fjall::KeyspaceCreateOptions::default)?;
        Ok(Self {
            database,
            objects,
            history,
        })
    }
}

impl Engine for Fjall {
    fn commit(&mut self, changes: &[Change]) -> Result<()> {
        let mut batch = self
            .database
            .batch()
            .durability(Some(fjall::PersistMode::SyncData));
        for (revision, key, content) in changes {
            batch.insert(&self.objects, &key[..], &content[..]);
            batch.insert(&self.history, revision.to_be_bytes(), &key[..]);
            if let Some(old) = revision.checked_sub(HISTORY) {
                batch.remove(&self.history, old.to_be_bytes());
            }
        }
        Ok(batch.commit()?)
    }
}

const NAMES: [&str; 5] = [
    "a file",
    "redb",
    "redb, quick repair",
    "sqlite, wal, full",
    "fjall",
];

fn open(name: &str, path: &Path) -> Result<Box<dyn Engine>> {
    let redb = |quick_repair| -> Result<Box<dyn Engine>> {
        let database = redb::Database::create(path.join("db"))?;
        Ok(Box::new(Redb {
            database,
            quick_repair,
        }))
    };
    match name {
        "a file" => Ok(Box::new(Raw::open(path)?)),
        "redb" => redb(false),
        "redb, quick repair" => redb(true),
        "sqlite, wal, full" => Ok(Box::new(Sqlite::open(path)?)),
        _ => Ok(Box::new(Fjall::open(path)?)),
    }
}

fn one_writer(mut engine: Box<dyn Engine>) -> Result<f64> {
    let (start, mut n) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        engine.commit(&[change(n)])?;
        n += 1;
    }
    Ok(n as f64 / start.elapsed().as_secs_f64())
}

fn many_writers(mut engine: Box<dyn Engine>) -> Result<f64> {
    type Waiting = (Change, thread::Thread, Arc<AtomicBool>);
    let (sender, queue) = mpsc::sync_channel::<Waiting>(1_024);
    let (revision, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start = Instant::now();
    for _ in 0..64 {
        let (sender, revision, done) = (sender.clone(), revision.clone(), done.clone());
        thread::spawn(move || {
            while start.elapsed() < TIME {
                let settled = Arc::new(AtomicBool::new(false));
                let change = change(revision.fetch_add(1, Ordering::Relaxed));
                if sender.send((change, thread::current(), settled.clone())).is_err() {
                    return;
                }
                while !settled.load(Ordering::Acquire) {
                    thread::park();
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    drop(sender);
    while let Ok(first) = queue.recv() {
        let (mut changes, mut waiting) = (vec![], vec![]);
        for (change, thread, settled) in std::iter::once(first).chain(queue.try_iter()) {
            changes.push(change);
            waiting.push((thread, settled));
        }
        changes.sort();
        engine.commit(&changes)?;
        for (thread, settled) in waiting {
            settled.store(true, Ordering::Release);
            thread.unpark();
        }
    }
    Ok(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// Commits, and ends as a crash does.
fn write_and_abort(name: &str, path: &Path) -> Result<()> {
    let mut engine = open(name, path)?;
    for revision in 0..500 {
        engine.commit(&[change(revision)])?;
    }
    std::process::abort()
}

fn files(path: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found = vec![];
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.path().is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push((entry.metadata()?.len(), entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// What is found after a crash and one flipped bit in the middle of what was acknowledged.
fn after_a_flipped_bit(name: &str, path: &Path) -> Result<String> {
    let me = std::env::current_exe()?;
    Command::new(me)
        .arg(name)
        .arg(path)
        .stderr(Stdio::null())
        .status()?;
    let log = path.join("db-wal");
    let largest = files(path)?.pop().ok_or("no file")?.1;
    let file = if log.exists() { log } else { largest };
    let mut bytes = fs::read(&file)?;
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    bytes[end / 2] ^= 1;
    fs::write(&file, &bytes)?;
    let read = || -> Result<usize> {
        Ok(match name {
            "fjall" => Fjall::open(path)?.objects.iter().filter(|_| true).count(),
            "sqlite, wal, full" => {
                let count = "select count(*) from objects";
                Sqlite::open(path)?
                    .0
                    .query_row(count, [], |row| row.get::<_, i64>(0))? as usize
            }
            _ => {
                let database = redb::Database::open(path.join("db"))?;
                let read = redb::ReadableDatabase::begin_read(&database)?;
                redb::ReadableTableMetadata::len(&read.open_table(REDB_OBJECTS)?)? as usize
            }
        })
    };
    Ok(match read() {
        Ok(found) => format!("opens with {found} of 500 changes"),
        Err(error) => format!("refuses: {error}"),
    })
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, path] = &arguments[..] {
        return write_and_abort(name, Path::new(path));
    }
    let home = std::env::temp_dir().join(format!("candidates-{}", std::process::id()));
    let fresh = |name: &str| -> Result<PathBuf> {
        let path = home.join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    for name in NAMES {
        let one = one_writer(open(name, &fresh(&format!("{name}-1"))?)?)?;
        let many = many_writers(open(name, &fresh(&format!("{name}-64"))?)?)?;
        println!("{name:<20} 1 writer {one:>8.0} /s   64 writers {many:>8.0} /s");
    }
    for name in ["redb", "sqlite, wal, full", "fjall"] {
        let found = after_a_flipped_bit(name, &fresh(&format!("{name}-flip"))?)?;
        println!("{name:<20} {found}");
    }
    Ok(fs::remove_dir_all(home)?)
}
