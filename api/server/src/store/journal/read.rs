//! Reading a journal: the state it tells, and where writing goes on.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{
    BASE, JournalError, SEGMENT, UNFINISHED, failed,
    frame::{
        BadHeader, Entry, FileKind, Frame, FrameKind, HEADER, Header, VERSION, ceiling, entries, frame, owned,
    },
    segment_name,
    write::Segment,
};
use crate::store::{
    Key, Record, StoreLimits,
    disk::Disk,
    memory::FIRST_REVISION,
    state::{State, Told},
};

/// A journal that was read.
#[derive(Debug)]
pub(in crate::store) struct Recovered {
    /// Objects, history and revision.
    pub(in crate::store) state: State,
    /// Which store it is; `None` if there was none yet.
    pub(in crate::store) store: Option<u128>,
    /// Number of the next frame.
    pub(in crate::store) number: u64,
    /// Segments in their order; the last one is written on unless it is sealed.
    pub(in crate::store) segments: Vec<Segment>,
    /// Where writing goes on in the last segment; `None` if a new one is to be begun.
    pub(in crate::store) tail: Option<Tail>,
    /// Files that nothing needs any more.
    pub(in crate::store) leftovers: Vec<String>,
}

/// The end of what is whole in the last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Tail {
    /// Checksum seed of the file.
    pub(in crate::store) seed: u64,
    /// Offset of the next frame.
    pub(in crate::store) at: u64,
    /// Offset after the last byte that is not zero: what is left of a write that was never acknowledged, or of an earlier
    /// life of the file.
    pub(in crate::store) dirty: u64,
}

/// Reads everything; writes nothing.
///
/// # Errors
/// If something acknowledged is missing or damaged. What was never acknowledged, at the end of the last segment, is passed
/// over.
pub(in crate::store) fn recover(disk: &dyn Disk, limits: StoreLimits) -> Result<Recovered, JournalError> {
    let names: Vec<String> = disk
        .list()
        .map_err(failed(disk, "read", ""))?
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let of = |prefix: &str| {
        let numbered = |name: &String| Some((name.strip_prefix(prefix)?.parse::<u64>().ok()?, name.clone()));
        names.iter().filter_map(numbered).collect::<BTreeMap<_, _>>()
    };
    let (mut bases, mut segments) = (of(BASE), of(SEGMENT));
    let mut reader = Reader::new(disk, limits);
    reader.recovered.leftovers = names
        .iter()
        .filter(|n| n.ends_with(UNFINISHED))
        .cloned()
        .collect();
    let first = match bases.pop_last() {
        Some((revision, name)) => {
            let header = reader.objects(&name, limits)?;
            if header.revision != revision {
                return Err(reader.damaged(
                    &name,
                    0,
                    format!("it is the base of revision {}", header.revision),
                ));
            }
            header.sequence
        }
        None => 1,
    };
    let mut later = segments.split_off(&first);
    let old = bases.into_values().chain(segments.into_values());
    reader.recovered.leftovers.extend(old);
    if reader.recovered.store.is_none() && later.is_empty() && reader.recovered.leftovers.is_empty() {
        return Ok(reader.recovered);
    }
    let missing = |sequence| JournalError::Missing {
        place: disk.place(),
        file: segment_name(sequence),
    };
    let mut sequence = first;
    loop {
        let Some(name) = later.get(&sequence) else {
            return Err(missing(sequence));
        };
        let next = later.get(&(sequence + 1));
        match reader.segment(name, sequence, next.map(String::as_str))? {
            End::Sealed => {
                sequence += 1;
                // Begun since the names were listed, where a process is writing.
                if next.is_none() && exists(disk, &segment_name(sequence))? {
                    later.insert(sequence, segment_name(sequence));
                }
            }
            End::Open => {
                // What follows was begun, and this one was not sealed any more.
                reader.recovered.leftovers.extend(next.cloned());
                break;
            }
        }
    }
    if reader.ceiling > reader.recovered.state.revision {
        // Between what is written and here, something was given out: who saw it lists anew.
        reader.recovered.state.raise(reader.ceiling);
        reader.recovered.state.forget_history();
    }
    Ok(reader.recovered)
}

/// How a segment ends.
enum End {
    /// Another one follows.
    Sealed,
    /// It is written on.
    Open,
}

/// Reads one file of objects: a base, or a backup.
///
/// # Errors
/// If it is missing or damaged.
pub(in crate::store) fn read_objects(disk: &dyn Disk, name: &str) -> Result<Recovered, JournalError> {
    let mut reader = Reader::new(disk, StoreLimits::default());
    reader.objects(name, StoreLimits::default())?;
    Ok(reader.recovered)
}

fn exists(disk: &dyn Disk, file: &str) -> Result<bool, JournalError> {
    let listed = disk.list().map_err(failed(disk, "read", ""))?;
    Ok(listed.iter().any(|(name, _)| name == file))
}

struct Reader<'a> {
    disk: &'a dyn Disk,
    /// The highest revision that may have been given out without being written.
    ceiling: u64,
    /// Names of tables and namespaces: one of each in memory.
    shared: HashSet<Arc<str>>,
    recovered: Recovered,
}

impl<'a> Reader<'a> {
    fn new(disk: &'a dyn Disk, limits: StoreLimits) -> Self {
        Self {
            disk,
            ceiling: 0,
            shared: HashSet::new(),
            recovered: Recovered {
                state: State::new(limits, FIRST_REVISION),
                store: None,
                number: 0,
                segments: vec![],
                tail: None,
                leftovers: vec![],
            },
        }
    }

    fn damaged(&self, file: &str, offset: usize, why: impl Into<String>) -> JournalError {
        JournalError::Damaged {
            place: self.disk.place(),
            file: file.to_owned(),
            offset: offset as u64,
            why: why.into(),
        }
    }

    fn content(&self, name: &str) -> Result<Vec<u8>, JournalError> {
        let io = failed(self.disk, "read", name);
        let file = self.disk.open(name).map_err(&io)?;
        let len = file.size().map_err(&io)?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
        file.read_at(0, &mut bytes).map_err(&io)?;
        Ok(bytes)
    }

    fn header(&mut self, kind: FileKind, name: &str, bytes: &[u8]) -> Result<Header, JournalError> {
        let Some(head) = bytes.first_chunk::<HEADER>() else {
            return Err(self.damaged(name, bytes.len(), "the file is too short for its header"));
        };
        let header = Header::decode(kind, head).map_err(|bad| match bad {
            BadHeader::Damaged => self.damaged(name, 0, "the header is unreadable"),
            BadHeader::Version(found) => JournalError::Version {
                place: self.disk.place(),
                file: name.to_owned(),
                found,
                reads: VERSION,
            },
        })?;
        if *self.recovered.store.get_or_insert(header.store) != header.store {
            return Err(self.damaged(name, 0, "the file belongs to another store"));
        }
        Ok(header)
    }

    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.shared.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.shared.insert(new.clone());
        new
    }

    fn told(&mut self, entry: &Entry<'_>) -> Told {
        Told {
            key: Key {
                table: self.shared(entry.table),
                namespace: self.shared(entry.namespace),
                name: entry.name.into(),
            },
            removed: entry.removed,
            record: Record {
                revision: entry.revision,
                bytes: owned(entry.bytes),
            },
        }
    }

    /// Loads a file of objects.
    fn objects(&mut self, name: &str, limits: StoreLimits) -> Result<Header, JournalError> {
        let bytes = self.content(name)?;
        let header = self.header(FileKind::Base, name, &bytes)?;
        let revision = header.revision;
        self.recovered.state = State::new(limits, revision);
        self.recovered.number = header.number;
        let (mut at, mut number, mut objects) = (HEADER, 0, 0_u64);
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let read = frame(header.seed, rest).filter(|f| f.number == number);
            let Some(read) = read else {
                return Err(self.damaged(name, at, format!("frame {number} of the base is unreadable")));
            };
            match read.kind {
                FrameKind::Objects => {
                    for entry in entries(read.payload) {
                        let Some(entry) = entry.filter(|e| !e.removed && e.revision <= revision) else {
                            return Err(self.damaged(name, at, "an object in this frame makes no sense"));
                        };
                        let told = self.told(&entry);
                        self.recovered.state.load(&told.key, told.record);
                        objects += 1;
                    }
                }
                FrameKind::End if read.payload == objects.to_le_bytes() => return Ok(header),
                _ => return Err(self.damaged(name, at, "a base has no such frame here")),
            }
            at += read.len();
            number += 1;
        }
    }

    /// Reads a segment; `next` is the one that follows, if one does.
    fn segment(&mut self, name: &str, sequence: u64, next: Option<&str>) -> Result<End, JournalError> {
        let bytes = self.content(name)?;
        let header = self.header(FileKind::Segment, name, &bytes)?;
        if header.sequence != sequence || header.number != self.recovered.number {
            let why = format!(
                "it is segment {} with frames from {}, and frame {} should follow",
                header.sequence, header.number, self.recovered.number
            );
            return Err(self.damaged(name, 0, why));
        }
        self.recovered.state.raise(header.revision);
        self.recovered.segments.push(Segment {
            sequence,
            revision: header.revision,
            number: header.number,
            bytes: bytes.len() as u64,
        });
        let mut at = HEADER;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let number = self.recovered.number;
            let Some(read) = frame(header.seed, rest).filter(|f| f.number == number) else {
                self.end(name, &header, &bytes, at, next)?;
                return Ok(End::Open);
            };
            self.recovered.number += 1;
            match read.kind {
                FrameKind::Batch => self.batch(name, at, &read)?,
                FrameKind::Ceiling => {
                    let Some(revision) = ceiling(read.payload) else {
                        return Err(self.damaged(name, at, "a ceiling without a revision"));
                    };
                    self.ceiling = self.ceiling.max(revision);
                }
                FrameKind::Seal => {
                    return Ok(End::Sealed);
                }
                FrameKind::Objects | FrameKind::End => {
                    return Err(self.damaged(name, at, "a segment has no such frame"));
                }
            }
            at += read.len();
        }
    }

    fn batch(&mut self, name: &str, at: usize, read: &Frame<'_>) -> Result<(), JournalError> {
        for entry in entries(read.payload) {
            let written = self.recovered.state.written();
            let Some(entry) = entry.filter(|e| e.revision > written) else {
                return Err(self.damaged(
                    name,
                    at,
                    format!("a change in frame {} makes no sense", read.number),
                ));
            };
            let told = self.told(&entry);
            let event = self.recovered.state.tell(told);
            self.recovered.state.settle(&event);
        }
        Ok(())
    }

    /// Whether a segment holds nothing, as one does that was begun a moment ago.
    fn is_empty(&mut self, name: &str, number: u64) -> Result<bool, JournalError> {
        let bytes = self.content(name)?;
        let header = self.header(FileKind::Segment, name, &bytes)?;
        let first = frame(header.seed, bytes.get(HEADER..).unwrap_or_default());
        Ok(header.number == number && first.is_none())
    }

    /// Where no frame follows: the end of the last segment, or damage.
    fn end(
        &mut self,
        name: &str,
        header: &Header,
        bytes: &[u8],
        at: usize,
        next: Option<&str>,
    ) -> Result<(), JournalError> {
        let number = self.recovered.number;
        if let Some(next) = next
            && !self.is_empty(next, number + 1)?
        {
            let why = format!("frame {number} is unreadable, and later segments go on from here");
            return Err(self.damaged(name, at, why));
        }
        let rest = bytes.get(at..).unwrap_or_default();
        // Only one frame is ever not synced: a whole one after an unreadable one shows that the latter was acknowledged.
        let whole = |skip: &usize| {
            let later = rest.get(*skip..).and_then(|bytes| frame(header.seed, bytes));
            later.is_some_and(|f| f.number >= number)
        };
        if let Some(skip) = (8..rest.len()).step_by(8).find(whole) {
            let why = format!(
                "frame {number} is unreadable, and a whole one follows at {}",
                at + skip
            );
            return Err(self.damaged(name, at, why));
        }
        self.recovered.tail = Some(Tail {
            seed: header.seed,
            at: at as u64,
            dirty: (at
                + rest
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(0, |last| last + 1)) as u64,
        });
        Ok(())
    }
}
