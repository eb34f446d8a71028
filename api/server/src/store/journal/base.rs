//! All objects as of one revision, in one file.

use super::{
    BASE, JournalError, UNFINISHED, base_name, failed,
    frame::{Entry, FileKind, FrameKind, Header, put_frame},
};
use crate::store::{Key, Record, disk::Disk, packed::Kept};

/// Bytes of objects in a frame, about.
const CHUNK: usize = 256 << 10;

/// Where a base stands among the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Place {
    /// Revision of the base.
    pub(in crate::store) revision: u64,
    /// The segment that goes on from it.
    pub(in crate::store) sequence: u64,
    /// Number of that segment's first frame.
    pub(in crate::store) number: u64,
    /// The store it belongs to.
    pub(in crate::store) store: u128,
}

/// Writes a base, and removes older ones when it is durable.
///
/// # Errors
/// If the disk refuses; a base of before is still there then.
pub(in crate::store) fn write_base(
    disk: &dyn Disk,
    place: Place,
    seed: u64,
    objects: &[(Key, Kept)],
) -> Result<(), JournalError> {
    let name = base_name(place.revision);
    write_objects(disk, &name, place, seed, objects)?;
    let io = failed(disk, "remove", &name);
    for (old, _) in disk.list().map_err(&io)? {
        if old.starts_with(BASE) && !old.ends_with(UNFINISHED) && old < name {
            disk.remove(&old).map_err(&io)?;
        }
    }
    Ok(())
}

/// Writes a file of objects under a name, which it has only when it is whole and durable.
///
/// # Errors
/// If the disk refuses.
pub(in crate::store) fn write_objects(
    disk: &dyn Disk,
    name: &str,
    place: Place,
    seed: u64,
    objects: &[(Key, Kept)],
) -> Result<(), JournalError> {
    let unfinished = format!("{name}{UNFINISHED}");
    let written = write_unfinished(disk, name, &unfinished, place, seed, objects);
    if written.is_err()
        && let Err(error) = disk.remove(&unfinished)
    {
        tracing::debug!(%error, file = unfinished, "what was begun could not be removed");
    }
    written
}

fn write_unfinished(
    disk: &dyn Disk,
    name: &str,
    unfinished: &str,
    place: Place,
    seed: u64,
    objects: &[(Key, Kept)],
) -> Result<(), JournalError> {
    let io = failed(disk, "write", name);
    let file = disk.create(unfinished).map_err(&io)?;
    let header = Header {
        kind: FileKind::Base,
        sequence: place.sequence,
        seed,
        revision: place.revision,
        number: place.number,
        store: place.store,
    };
    let mut at = 0_u64;
    let mut append = |bytes: &[u8]| {
        let wrote = file.write_at(at, bytes).map_err(&io);
        at += bytes.len() as u64;
        wrote
    };
    append(&header.encode())?;
    let mut number = 0;
    let mut buffer = Vec::with_capacity(CHUNK * 2);
    let mut rest = objects;
    while !rest.is_empty() {
        let mut filled = 0;
        let mut taken = 0;
        put_frame(&mut buffer, seed, FrameKind::Objects, number, |out| {
            for (key, kept) in rest {
                if filled > CHUNK {
                    break;
                }
                let record = kept.record();
                let entry = entry(key, &record);
                filled += entry.len();
                entry.put(out);
                taken += 1;
            }
        });
        rest = rest.get(taken..).unwrap_or_default();
        number += 1;
        append(&buffer)?;
        buffer.clear();
    }
    put_frame(&mut buffer, seed, FrameKind::End, number, |out| {
        out.extend((objects.len() as u64).to_le_bytes());
    });
    append(&buffer)?;
    let sync = failed(disk, JournalError::SYNC, name);
    file.sync().map_err(&sync)?;
    drop(file);
    disk.rename(unfinished, name).map_err(&io)?;
    disk.sync().map_err(sync)
}

fn entry<'a>(key: &'a Key, record: &'a Record) -> Entry<'a> {
    Entry {
        removed: false,
        revision: record.revision,
        table: &key.table,
        namespace: &key.namespace,
        name: &key.name,
        bytes: &record.bytes,
    }
}
