//! Audit events as lines of JSON in a file of bounded size.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;

use super::AuditSink;

/// Events that wait for the disk: so many refusals, so many until no more writes are taken, and room for those that are under
/// way then, of which there are fewer than [`crate::flow`] lets in.
const REFUSALS: usize = 2_048;
const BUSY: usize = 4_096;
const QUEUE: usize = 12_288;

/// Time between two tries to write a line.
const PAUSE: Duration = Duration::from_millis(500);

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct AuditLimits {
    /// Bytes of one file; what is full is renamed to `<file>.1`, that to `<file>.2`, and so on.
    pub file_bytes: u64,
    /// Full files kept beside the one that is written; the oldest goes.
    pub files: usize,
}

impl Default for AuditLimits {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 20,
            files: 4,
        }
    }
}

/// A file of audit events, one JSON object a line. A thread of its own writes it: requests never wait for the disk. Dropped,
/// it writes what is left.
///
/// A disk that takes nothing costs refusals; what is recorded of writes waits until it takes something again, and meanwhile
/// the server takes no more writes than may wait.
#[derive(Debug)]
pub struct AuditFile {
    queue: Option<Sender<Line>>,
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    waiting: AtomicUsize,
    dropped: AtomicU64,
    closing: AtomicBool,
}

#[derive(Debug)]
struct Line {
    bytes: Vec<u8>,
    /// Whether it may be left out.
    refusal: bool,
}

impl AuditFile {
    /// Opens (or creates, for its owner only) the file, to write at its end.
    ///
    /// # Errors
    /// The file cannot be opened, or the machine gives no thread.
    pub fn open(path: &Path, limits: AuditLimits) -> io::Result<Self> {
        let mut log = Log::open(path.to_owned(), limits)?;
        // Counted, not sized: room for as many as may wait would be half of what an idle server weighs.
        let (queue, events) = channel();
        let shared = Arc::<Shared>::default();
        let known = shared.clone();
        let writer = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(&mut log, &events, &known))?;
        Ok(Self {
            queue: Some(queue),
            shared,
            writer: Some(writer),
        })
    }

    /// Events that were not written: refusals because the disk was full or too slow, others because it was so to the end.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn take(&self, event: &Value, refusal: bool) {
        let Ok(mut bytes) = serde_json::to_vec(event) else {
            return;
        };
        bytes.push(b'\n');
        let waiting = self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        let most = if refusal { REFUSALS } else { QUEUE };
        let queue = self.queue.as_ref().filter(|_| waiting < most);
        let sent = queue.is_some_and(|queue| queue.send(Line { bytes, refusal }).is_ok());
        if !sent {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            count(&self.shared.dropped, "they come faster than the disk takes them");
        }
    }
}

impl AuditSink for AuditFile {
    fn record(&self, event: &Value) {
        self.take(event, false);
    }

    fn record_refusal(&self, event: &Value) {
        self.take(event, true);
    }

    fn is_busy(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire) >= BUSY
    }
}

impl Drop for AuditFile {
    fn drop(&mut self) {
        self.queue = None;
        self.shared.closing.store(true, Ordering::Release);
        let Some(writer) = self.writer.take() else { return };
        writer.thread().unpark();
        if writer.join().is_err() {
            tracing::error!("the writer of the audit log had failed");
        }
    }
}

/// Counts a lost event; the log tells of the first, the second, the fourth and so on.
fn count(dropped: &AtomicU64, why: &str) {
    let lost = dropped.fetch_add(1, Ordering::Relaxed) + 1;
    if lost.is_power_of_two() {
        tracing::error!(lost, why, "audit events are lost");
    }
}

fn write_all(log: &mut Log, events: &Receiver<Line>, shared: &Shared) {
    while let Ok(line) = events.recv() {
        let mut failed = false;
        while let Err(error) = log.write(&line.bytes) {
            if line.refusal || shared.closing.load(Ordering::Acquire) {
                count(&shared.dropped, &error.to_string());
                break;
            }
            if !std::mem::replace(&mut failed, true) {
                tracing::error!(%error, "the audit log cannot be written; it is tried again, and few more writes are taken");
            }
            std::thread::park_timeout(PAUSE);
        }
        shared.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

struct Log {
    path: PathBuf,
    limits: AuditLimits,
    file: File,
    size: u64,
    /// A line broke off: the next one starts a new one.
    torn: bool,
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

impl Log {
    fn open(path: PathBuf, limits: AuditLimits) -> io::Result<Self> {
        let (file, size) = open(&path)?;
        let mut log = Self {
            path,
            limits,
            file,
            size,
            torn: false,
        };
        log.torn = log.size > 0 && !log.ends_with_newline();
        Ok(log)
    }

    /// Whether the file of an earlier start ends as it should.
    fn ends_with_newline(&self) -> bool {
        use std::io::{Read, Seek, SeekFrom};
        let mut last = [0];
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)
        });
        read.is_ok() && last == *b"\n"
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        if self.size > 0 && self.size.saturating_add(length) > self.limits.file_bytes {
            self.rotate()?;
        }
        if self.torn {
            self.file.write_all(b"\n")?;
            self.size += 1;
        }
        self.torn = true;
        self.file.write_all(line)?;
        self.torn = false;
        self.size = self.size.saturating_add(length);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let place = |n: usize| {
            let mut path = self.path.as_os_str().to_owned();
            if n > 0 {
                path.push(format!(".{n}"));
            }
            PathBuf::from(path)
        };
        if self.limits.files == 0 {
            std::fs::remove_file(place(0))?;
        }
        for n in (0..self.limits.files).rev() {
            match std::fs::rename(place(n), place(n + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        (self.file, self.size) = open(&self.path)?;
        self.torn = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("roundhouse-audit-{}", uuid::Uuid::new_v4()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn numbers(path: &Path) -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter_map(|event| event["n"].as_u64()).collect()
    }

    #[test]
    fn full_files_are_put_aside_and_the_oldest_goes() {
        let directory = Directory::new();
        let path = directory.0.join("audit.log");
        // Two lines of eight bytes fit.
        let limits = AuditLimits {
            file_bytes: 16,
            files: 2,
        };
        let file = AuditFile::open(&path, limits).unwrap();
        for n in 0..7 {
            file.record(&json!({"n": n}));
        }
        assert_eq!(file.dropped(), 0);
        drop(file);
        let beside = |n: usize| directory.0.join(format!("audit.log.{n}"));
        assert_eq!(numbers(&path), [6]);
        assert_eq!(
            (numbers(&beside(1)), numbers(&beside(2))),
            (vec![4, 5], vec![2, 3])
        );
        assert!(!beside(3).exists());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_line_that_broke_off_spoils_no_other() {
        let directory = Directory::new();
        let path = directory.0.join("audit.log");
        std::fs::write(&path, "{\"n\":1}\n{\"n\":").unwrap();
        let file = AuditFile::open(&path, AuditLimits::default()).unwrap();
        file.record(&json!({"n": 2}));
        drop(file);
        assert_eq!(numbers(&path), [1, 2]);
    }

    #[test]
    fn a_disk_that_takes_nothing_to_the_end_costs_events() {
        // Every write to it fails as on a full disk.
        let file = AuditFile::open(Path::new("/dev/full"), AuditLimits::default()).unwrap();
        for n in 0..10 {
            file.record(&json!({"n": n}));
        }
        let shared = file.shared.clone();
        drop(file);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn what_was_written_waits_for_the_disk_and_refusals_do_not() {
        let directory = Directory::new();
        let path = directory.0.join("audit.log");
        // It cannot be put aside as long as there is a directory in its place.
        let aside = directory.0.join("audit.log.1");
        std::fs::create_dir_all(aside.join("x")).unwrap();
        let limits = AuditLimits {
            file_bytes: 24,
            files: 1,
        };
        let file = AuditFile::open(&path, limits).unwrap();
        for n in 0..3 {
            file.record(&json!({"n": n}));
        }
        let rest = BUSY as u64;
        for _ in 0..rest {
            file.record(&json!({}));
        }
        assert!(file.is_busy(), "writes are refused");
        let before = file.dropped();
        file.record_refusal(&json!({"n": 9}));
        assert_eq!((before, file.dropped()), (0, 1));
        // Those that are under way are recorded all the same.
        for _ in BUSY..(QUEUE - 3) {
            file.record(&json!({}));
        }
        assert_eq!(file.dropped(), 1);
        std::fs::remove_dir_all(&aside).unwrap();
        let shared = file.shared.clone();
        while shared.waiting.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
        assert!(!file.is_busy(), "it goes on by itself");
        file.record(&json!({"n": 8}));
        drop(file);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 1);
        let last = std::fs::read_to_string(&path).unwrap();
        assert!(last.ends_with("{\"n\":8}\n"), "{last}");
    }
}
