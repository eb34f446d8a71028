//! Writing a journal.

use std::{collections::VecDeque, io, sync::Arc, thread::Thread};

use parking_lot::{Condvar, Mutex};

use super::{
    JournalError, Recovered, SPARE, failed,
    frame::{Entry, FileKind, FrameKind, HEADER, Header, frame_len, put_frame},
    segment_name,
};
use crate::store::{
    Event, EventKind,
    disk::{Disk, DiskFile},
};

/// Bytes of a batch, about; more changes go into another frame.
const MAX_BATCH: usize = 4 << 20;
/// Bytes at the end of a segment for what must always fit: its seal, and ceilings.
const TAIL: u64 = 4 << 10;
/// Bytes written at a time while a spare is made.
const ZEROS: usize = 1 << 20;
/// Spares kept for later.
const MAX_SPARES: usize = 4;

/// What is known of a segment without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Segment {
    pub(in crate::store) sequence: u64,
    /// The revision before its first change.
    pub(in crate::store) revision: u64,
    /// Number of its first frame.
    pub(in crate::store) number: u64,
    /// Bytes of the file.
    pub(in crate::store) bytes: u64,
}

/// Segments made in advance, shared by the thread that writes and the one that makes them.
#[derive(Default)]
pub(in crate::store) struct Spares {
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    ready: VecDeque<Ready>,
    /// Why the last attempt to make one failed.
    full: Option<String>,
    made: u64,
    /// Whether one was taken that is not written yet.
    taken: bool,
    /// The thread that makes them.
    keeper: Option<Thread>,
}

struct Ready {
    name: String,
    file: Box<dyn DiskFile>,
    bytes: u64,
}

impl Spares {
    /// Whether one should be made.
    pub(in crate::store) fn wanted(&self) -> bool {
        let held = self.held.lock();
        held.ready.is_empty() || held.full.is_some()
    }

    /// Whether nothing follows the segment that is written now.
    pub(in crate::store) fn short(&self) -> bool {
        let held = self.held.lock();
        held.ready.is_empty() && !held.taken
    }

    /// What was taken is written, and its room is known.
    pub(in crate::store) fn settled(&self) {
        self.held.lock().taken = false;
    }

    /// Why there is none, if the disk has no room for one.
    pub(in crate::store) fn full(&self) -> Option<String> {
        self.held.lock().full.clone()
    }

    /// Tells which thread makes spares. Without one, they are made where they are needed.
    pub(in crate::store) fn kept(&self, keeper: Option<Thread>) {
        self.held.lock().keeper = keeper;
        self.changed.notify_all();
    }

    fn put(&self, ready: Ready) {
        let mut held = self.held.lock();
        held.full = None;
        held.ready.push_back(ready);
        self.changed.notify_all();
    }

    fn name(&self) -> String {
        let mut held = self.held.lock();
        held.made += 1;
        format!("{SPARE}{:016}", held.made)
    }

    /// A spare of at least so many bytes; waits for one that is being made. None if that failed, or nobody makes one.
    fn take(&self, bytes: u64) -> Option<Ready> {
        let mut held = self.held.lock();
        loop {
            if let Some(at) = held.ready.iter().position(|spare| spare.bytes >= bytes) {
                held.taken = true;
                return held.ready.remove(at);
            }
            match &held.keeper {
                Some(keeper) if held.full.is_none() => keeper.unpark(),
                _ => return None,
            }
            self.changed.wait(&mut held);
        }
    }
}

/// Makes a spare of so many bytes.
///
/// # Errors
/// If the disk refuses; what was begun is removed, to give its room back.
pub(in crate::store) fn make_spare(disk: &dyn Disk, spares: &Spares, bytes: u64) -> Result<(), JournalError> {
    let name = spares.name();
    let made = zeros(disk, &name, bytes);
    match made {
        Ok(file) => {
            spares.put(Ready { name, file, bytes });
            Ok(())
        }
        Err(error) => {
            if let Err(error) = disk.remove(&name) {
                tracing::debug!(%error, file = name, "the beginning of a spare segment could not be removed");
            }
            spares.held.lock().full = Some(error.to_string());
            spares.changed.notify_all();
            Err(error)
        }
    }
}

fn zeros(disk: &dyn Disk, name: &str, bytes: u64) -> Result<Box<dyn DiskFile>, JournalError> {
    let io = failed(disk, "make room for", name);
    let file = disk.create(name).map_err(&io)?;
    write_zeros(&*file, 0, bytes).map_err(&io)?;
    file.sync().map_err(failed(disk, JournalError::SYNC, name))?;
    Ok(file)
}

fn write_zeros(file: &dyn DiskFile, mut at: u64, end: u64) -> std::io::Result<()> {
    let zeros = vec![0; ZEROS];
    while at < end {
        let now = zeros.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        file.write_at(at, zeros.get(..now).unwrap_or_default())?;
        at += now as u64;
    }
    Ok(())
}

/// Removes segments, or keeps them as spares.
///
/// # Errors
/// If the disk refuses; what is left over is removed at the next start.
pub(in crate::store) fn drop_segments(
    disk: &dyn Disk,
    spares: &Spares,
    segments: &[Segment],
    bytes: u64,
) -> Result<(), JournalError> {
    for segment in segments {
        let old = segment_name(segment.sequence);
        let few = spares.held.lock().ready.len() < MAX_SPARES;
        if few && segment.bytes == bytes {
            let name = spares.name();
            disk.rename(&old, &name).map_err(failed(disk, "rename", &old))?;
            let file = disk.open(&name).map_err(failed(disk, "open", &name))?;
            spares.put(Ready { name, file, bytes });
        } else {
            disk.remove(&old).map_err(failed(disk, "remove", &old))?;
        }
    }
    Ok(())
}

/// The end of a journal, where changes are written.
pub(in crate::store) struct Journal {
    disk: Arc<dyn Disk>,
    spares: Arc<Spares>,
    store: u128,
    /// Bytes of a segment.
    bytes: u64,
    /// Number of the next frame.
    number: u64,
    /// Revision of the last change written.
    revision: u64,
    active: Active,
    /// The segment that follows, once it is begun and until the present one is sealed.
    next: Option<(Active, Header)>,
    buffer: Vec<u8>,
}

struct Active {
    file: Box<dyn DiskFile>,
    name: String,
    sequence: u64,
    seed: u64,
    at: u64,
    bytes: u64,
}

/// A random number that makes the checksums of a file its own.
pub(in crate::store) fn seed() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}

impl Journal {
    /// Goes on where a journal ended; a new one begins with its first segment.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(in crate::store) fn go_on(
        disk: Arc<dyn Disk>,
        spares: Arc<Spares>,
        bytes: u64,
        recovered: &mut Recovered,
    ) -> Result<Self, JournalError> {
        let leftovers = std::mem::take(&mut recovered.leftovers);
        let spare = |name: &String| name.starts_with(SPARE);
        let listed = disk.list().map_err(failed(&*disk, "read", ""))?;
        for name in leftovers
            .iter()
            .chain(listed.iter().map(|(n, _)| n).filter(|n| spare(n)))
        {
            disk.remove(name).map_err(failed(&*disk, "remove", name))?;
        }
        // Or a crash brings back a segment that was begun, after others have taken its place.
        disk.sync().map_err(failed(&*disk, JournalError::SYNC, ""))?;
        let store = recovered.store.unwrap_or_else(|| uuid::Uuid::new_v4().as_u128());
        let last = recovered.segments.last().copied();
        let active = match (last, recovered.tail) {
            (Some(last), Some(tail)) => {
                let name = segment_name(last.sequence);
                let file = disk.open(&name).map_err(failed(&*disk, "open", &name))?;
                // Or the next write, cut short by another crash, could make whole what was found to be none.
                write_zeros(&*file, tail.at, tail.dirty)
                    .and_then(|()| file.sync())
                    .map_err(failed(&*disk, "clean", &name))?;
                Active {
                    file,
                    name,
                    sequence: last.sequence,
                    seed: tail.seed,
                    at: tail.at,
                    bytes: last.bytes,
                }
            }
            _ => {
                let place = Header {
                    kind: FileKind::Segment,
                    sequence: last.map_or(1, |last| last.sequence + 1),
                    seed: seed(),
                    revision: recovered.state.revision,
                    number: recovered.number,
                    store,
                };
                let spare = take(&*disk, &spares, bytes)?;
                let active = begin(&*disk, &spares, spare, &place)?;
                recovered.segments.push(Segment {
                    sequence: place.sequence,
                    revision: place.revision,
                    number: place.number,
                    bytes: active.bytes,
                });
                active
            }
        };
        Ok(Self {
            disk,
            spares,
            store,
            bytes,
            number: recovered.number,
            revision: recovered.state.revision,
            active,
            next: None,
            buffer: Vec::new(),
        })
    }

    /// The store this is the journal of.
    pub(in crate::store) fn store(&self) -> u128 {
        self.store
    }

    /// Bytes that surely can be written yet, whatever the disk says.
    pub(in crate::store) fn room(&self) -> u64 {
        match self.next {
            Some(_) => 0,
            None => self.active.bytes.saturating_sub(self.active.at + TAIL),
        }
    }

    /// Writes the first of some changes in one durable step. Returns how many of them, at least one, and the segment that
    /// was begun for it, if one was.
    ///
    /// # Errors
    /// If the disk refuses. Nothing is lost if [`JournalError::is_full`]: the same call may be made again. After any other
    /// error nobody knows what is on the disk, and no other call may follow.
    pub(in crate::store) fn append(
        &mut self,
        changes: &[Arc<Event>],
    ) -> Result<(usize, Option<Segment>), JournalError> {
        let mut taken = 0;
        self.buffer.clear();
        let seed = self.active.seed;
        let limit = MAX_BATCH.min(usize::try_from(self.bytes / 4).unwrap_or(MAX_BATCH));
        let fits = put_frame(&mut self.buffer, seed, FrameKind::Batch, self.number, |out| {
            for change in changes {
                let entry = entry(change);
                if taken > 0 && out.len() + entry.len() > limit {
                    break;
                }
                entry.put(out);
                taken += 1;
            }
        });
        if !fits {
            let name = &self.active.name;
            return Err(failed(&*self.disk, "frame", name)(
                io::ErrorKind::InvalidData.into(),
            ));
        }
        if self.next.is_none() && self.buffer.len() as u64 <= self.room() {
            self.put()?;
            if let Some(last) = changes.get(..taken).and_then(<[_]>::last) {
                self.revision = last.revision;
            }
            return Ok((taken, None));
        }
        let begun = self.rotate(self.buffer.len() as u64)?;
        // The frame has another seed and number there.
        let (taken, _) = self.append(changes)?;
        Ok((taken, Some(begun)))
    }

    /// Writes that revisions up to this one may have been given out.
    ///
    /// # Errors
    /// If the disk refuses; as for [`Journal::append`].
    pub(in crate::store) fn raise(&mut self, revision: u64) -> Result<(), JournalError> {
        if self.next.is_some() {
            self.rotate(0)?;
        }
        self.buffer.clear();
        put_frame(
            &mut self.buffer,
            self.active.seed,
            FrameKind::Ceiling,
            self.number,
            |out| out.extend(revision.to_le_bytes()),
        );
        let seal = frame_len(0) as u64;
        if self.active.at + self.buffer.len() as u64 + seal > self.active.bytes {
            return Err(failed(&*self.disk, "write", &self.active.name)(
                std::io::ErrorKind::StorageFull.into(),
            ));
        }
        self.put()
    }

    /// Writes the buffer as the next frame.
    fn put(&mut self) -> Result<(), JournalError> {
        let name = &self.active.name;
        self.active
            .file
            .write_at(self.active.at, &self.buffer)
            .map_err(failed(&*self.disk, "write", name))?;
        self.active
            .file
            .sync()
            .map_err(failed(&*self.disk, JournalError::SYNC, name))?;
        self.active.at += self.buffer.len() as u64;
        self.number += 1;
        // One big batch is no reason to hold as much for good.
        self.buffer.shrink_to(MAX_BATCH / 4);
        Ok(())
    }

    /// Begins another segment and seals this one. In this order, so that a seal tells that there is another one.
    fn rotate(&mut self, need: u64) -> Result<Segment, JournalError> {
        if self.next.is_none() {
            let need = need + HEADER as u64 + TAIL;
            if need > self.bytes {
                // An object larger than a segment gets one of its own size.
                make_spare(&*self.disk, &self.spares, need)?;
            }
            let spare = take(&*self.disk, &self.spares, need.max(self.bytes))?;
            let header = Header {
                kind: FileKind::Segment,
                sequence: self.active.sequence + 1,
                seed: seed(),
                revision: self.revision,
                // The seal is a frame, too.
                number: self.number + 1,
                store: self.store,
            };
            self.next = Some((begin(&*self.disk, &self.spares, spare, &header)?, header));
        }
        self.buffer.clear();
        let seed = self.active.seed;
        put_frame(&mut self.buffer, seed, FrameKind::Seal, self.number, |_| {});
        self.put()?;
        let begun = self.next.take().map(|(active, header)| {
            self.active = active;
            Segment {
                sequence: header.sequence,
                revision: header.revision,
                number: header.number,
                bytes: self.active.bytes,
            }
        });
        // It was made above.
        begun.ok_or_else(|| failed(&*self.disk, "begin", "")(std::io::ErrorKind::NotFound.into()))
    }
}

fn take(disk: &dyn Disk, spares: &Spares, bytes: u64) -> Result<Ready, JournalError> {
    if let Some(spare) = spares.take(bytes) {
        return Ok(spare);
    }
    if spares.held.lock().keeper.is_none() {
        make_spare(disk, spares, bytes)?;
    }
    let none = || failed(disk, "make room in", "")(std::io::ErrorKind::StorageFull.into());
    spares.take(bytes).ok_or_else(none)
}

/// Turns a spare into the segment a header tells.
fn begin(disk: &dyn Disk, spares: &Spares, spare: Ready, header: &Header) -> Result<Active, JournalError> {
    let name = segment_name(header.sequence);
    if let Err(error) = spare.file.write_at(0, &header.encode()) {
        let error = failed(disk, "write", &spare.name)(error);
        spares.held.lock().ready.push_front(spare);
        return Err(error);
    }
    spare
        .file
        .sync()
        .map_err(failed(disk, JournalError::SYNC, &spare.name))?;
    disk.rename(&spare.name, &name)
        .map_err(failed(disk, "rename", &spare.name))?;
    disk.sync().map_err(failed(disk, JournalError::SYNC, ""))?;
    Ok(Active {
        file: spare.file,
        name,
        sequence: header.sequence,
        seed: header.seed,
        at: HEADER as u64,
        bytes: spare.bytes,
    })
}

/// Bytes a change takes in a journal.
pub(in crate::store) fn size(event: &Event) -> usize {
    entry(event).len()
}

/// What a journal keeps of a change.
fn entry(event: &Event) -> Entry<'_> {
    Entry {
        removed: event.kind == EventKind::Deleted,
        revision: event.revision,
        table: &event.key.table,
        namespace: &event.key.namespace,
        name: &event.key.name,
        bytes: &event.bytes,
    }
}
