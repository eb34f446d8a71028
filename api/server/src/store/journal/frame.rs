//! How a journal is laid out in bytes. Everything is little-endian.
//!
//! A file begins with a [`Header`] of 64 bytes and goes on with frames: 24 bytes of head, a payload, and padding to eight
//! bytes. The checksum of a frame covers the file's random seed, so that what a file held in an earlier life, or what somebody
//! stores as content, is no frame of it.

use bytes::Bytes;

/// Bytes of a file's header.
pub(super) const HEADER: usize = 64;
/// Bytes of a frame's head.
pub(super) const HEAD: usize = 24;
/// Version of the layout.
pub(super) const VERSION: u32 = 1;

const MAGIC_FRAME: u32 = u32::from_le_bytes(*b"RHFR");

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Changes in the order of their revisions.
    Segment,
    /// All objects as of one revision.
    Base,
}

impl FileKind {
    const fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Segment => b"RHSEGMNT",
            Self::Base => b"RHBASE\0\0",
        }
    }
}

/// The first bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: FileKind,
    /// Of a segment: its own. Of a base: the first segment that goes on from it.
    pub(super) sequence: u64,
    /// Enters every checksum of the file.
    pub(super) seed: u64,
    /// The revision before the first change of a segment; the revision of a base.
    pub(super) revision: u64,
    /// Number of the first frame of a segment; of a base, of the first frame of the segment that goes on.
    pub(super) number: u64,
    /// The store this belongs to.
    pub(super) store: u128,
}

/// Why the first bytes of a file are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// A newer program wrote it.
    Version(u32),
    /// It is damaged.
    Damaged,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(self.kind.magic());
        put(&VERSION.to_le_bytes());
        put(&[0; 4]);
        put(&self.sequence.to_le_bytes());
        put(&self.seed.to_le_bytes());
        put(&self.revision.to_le_bytes());
        put(&self.number.to_le_bytes());
        put(&self.store.to_le_bytes());
        let sum = crc32fast::hash(&out);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
        out
    }

    pub(super) fn decode(kind: FileKind, bytes: &[u8; HEADER]) -> Result<Self, BadHeader> {
        let mut bare = *bytes;
        bare[12..16].fill(0);
        let mut reader = Reader(bytes);
        let damaged = BadHeader::Damaged;
        let magic = reader.take(8).ok_or(damaged)?;
        let version = reader.u32().ok_or(damaged)?;
        let sum = reader.u32().ok_or(damaged)?;
        if magic != kind.magic() || sum != crc32fast::hash(&bare) {
            return Err(damaged);
        }
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        let mut word = || reader.u64().ok_or(damaged);
        let (sequence, seed, revision, number) = (word()?, word()?, word()?, word()?);
        let (low, high) = (word()?, word()?);
        Ok(Self {
            kind,
            sequence,
            seed,
            revision,
            number,
            store: u128::from(low) | u128::from(high) << 64,
        })
    }
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum FrameKind {
    /// Changes that became durable together.
    Batch = 1,
    /// A revision that may have been given out without being written.
    Ceiling = 2,
    /// The end of a segment: another one follows.
    Seal = 3,
    /// Objects of a base.
    Objects = 4,
    /// The end of a base.
    End = 5,
}

impl FrameKind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Batch, Self::Ceiling, Self::Seal, Self::Objects, Self::End]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// Bytes of a frame with a payload of this many.
pub(super) const fn frame_len(payload: usize) -> usize {
    HEAD + payload.next_multiple_of(8)
}

/// Appends a frame whose payload `fill` appends.
///
/// Returns whether the payload fitted a frame, which holds at most 4 GiB; nothing was appended otherwise.
pub(super) fn put_frame(
    out: &mut Vec<u8>,
    seed: u64,
    kind: FrameKind,
    number: u64,
    fill: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let start = out.len();
    out.resize(start + HEAD, 0);
    fill(out);
    let Ok(len) = u32::try_from(out.len() - start - HEAD) else {
        out.truncate(start);
        return false;
    };
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&MAGIC_FRAME.to_le_bytes());
    head[4] = kind as u8;
    head[8..12].copy_from_slice(&len.to_le_bytes());
    head[16..].copy_from_slice(&number.to_le_bytes());
    let sum = checksum(seed, &head, &out[start + HEAD..]);
    head[12..16].copy_from_slice(&sum.to_le_bytes());
    out[start..start + HEAD].copy_from_slice(&head);
    out.resize(start + frame_len(len as usize), 0);
    true
}

fn checksum(seed: u64, head: &[u8; HEAD], payload: &[u8]) -> u32 {
    let mut bare = *head;
    bare[12..16].fill(0);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(&bare);
    hasher.update(payload);
    hasher.finalize()
}

/// A frame that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: FrameKind,
    pub(super) number: u64,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes it takes in the file.
    pub(super) fn len(&self) -> usize {
        frame_len(self.payload.len())
    }
}

/// The frame at the start of some bytes, if there is a whole one.
pub(super) fn frame(seed: u64, bytes: &[u8]) -> Option<Frame<'_>> {
    let head: &[u8; HEAD] = bytes.first_chunk()?;
    let mut reader = Reader(head);
    if reader.u32()? != MAGIC_FRAME {
        return None;
    }
    let kind = FrameKind::of(reader.u32().and_then(|word| u8::try_from(word).ok())?)?;
    let len = usize::try_from(reader.u32()?).ok()?;
    let sum = reader.u32()?;
    let number = reader.u64()?;
    let payload = bytes.get(HEAD..HEAD.checked_add(len)?)?;
    let whole = bytes.len() >= frame_len(len);
    (whole && checksum(seed, head, payload) == sum).then_some(Frame {
        kind,
        number,
        payload,
    })
}

/// One change or object as its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) removed: bool,
    pub(super) revision: u64,
    pub(super) table: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) bytes: &'a [u8],
}

impl Entry<'_> {
    /// Bytes it takes in a payload.
    pub(super) fn len(&self) -> usize {
        let texts = [self.table, self.namespace, self.name].map(str::len);
        25 + texts.iter().sum::<usize>() + self.bytes.len()
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
        let parts = [
            self.table.as_bytes(),
            self.namespace.as_bytes(),
            self.name.as_bytes(),
            self.bytes,
        ];
        out.push(self.removed.into());
        out.extend(self.revision.to_le_bytes());
        for part in parts {
            out.extend(length(part));
        }
        for part in parts {
            out.extend(part);
        }
    }
}

/// The entries of a payload; `None` where it does not hold together.
pub(super) fn entries(payload: &[u8]) -> impl Iterator<Item = Option<Entry<'_>>> {
    let mut reader = Reader(payload);
    std::iter::from_fn(move || {
        if reader.0.is_empty() {
            return None;
        }
        let entry = reader.entry();
        if entry.is_none() {
            reader.0 = &[];
        }
        Some(entry)
    })
}

/// The revision a [`FrameKind::Ceiling`] tells.
pub(super) fn ceiling(payload: &[u8]) -> Option<u64> {
    Reader(payload).u64()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        let removed = match self.take(1)? {
            [0] => false,
            [1] => true,
            _ => return None,
        };
        let revision = self.u64()?;
        let mut lens = [0; 4];
        for len in &mut lens {
            *len = usize::try_from(self.u32()?).ok()?;
        }
        let mut text = |len| std::str::from_utf8(self.take(len)?).ok();
        let (table, namespace, name) = (text(lens[0])?, text(lens[1])?, text(lens[2])?);
        Some(Entry {
            removed,
            revision,
            table,
            namespace,
            name,
            bytes: self.take(lens[3])?,
        })
    }
}

/// Copies what a payload borrows, so that a whole file does not stay in memory for one object of it.
pub(super) fn owned(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(kind: FileKind) -> Header {
        Header {
            kind,
            sequence: 7,
            seed: 0x0123_4567_89ab_cdef,
            revision: 41,
            number: 12,
            store: u128::MAX / 3,
        }
    }

    #[test]
    fn a_header_comes_back_and_no_flipped_bit_passes() {
        for kind in [FileKind::Segment, FileKind::Base] {
            let bytes = header(kind).encode();
            assert_eq!(Header::decode(kind, &bytes), Ok(header(kind)));
            for bit in 0..HEADER * 8 {
                let mut flipped = bytes;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    Header::decode(kind, &flipped),
                    Err(BadHeader::Damaged),
                    "bit {bit}"
                );
            }
        }
        assert_eq!(
            Header::decode(FileKind::Base, &header(FileKind::Segment).encode()),
            Err(BadHeader::Damaged)
        );
    }

    #[test]
    fn a_frame_is_read_in_its_own_file_only_and_no_flipped_bit_passes() {
        let mut bytes = vec![];
        assert!(put_frame(&mut bytes, 5, FrameKind::Batch, 9, |out| out.extend(b"hello")));
        assert_eq!(bytes.len(), frame_len(5));
        let read = frame(5, &bytes).unwrap();
        assert_eq!(
            (read.kind, read.number, read.payload),
            (FrameKind::Batch, 9, &b"hello"[..])
        );
        assert_eq!(read.len(), bytes.len());
        assert_eq!(frame(6, &bytes), None, "another file's");
        assert_eq!(frame(5, &bytes[..bytes.len() - 1]), None, "cut");
        for bit in 0..(HEAD + 5) * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(frame(5, &flipped), None, "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn entries_come_back(list in prop::collection::vec((any::<bool>(), any::<u64>(), "\\PC{0,9}", "\\PC{0,9}", "\\PC{0,9}", prop::collection::vec(any::<u8>(), 0..40)), 0..6)) {
            let all: Vec<Entry<'_>> = list.iter().map(|(removed, revision, table, namespace, name, bytes)| Entry {
                removed: *removed, revision: *revision, table, namespace, name, bytes,
            }).collect();
            let mut payload = vec![];
            for entry in &all {
                let before = payload.len();
                entry.put(&mut payload);
                prop_assert_eq!(payload.len() - before, entry.len());
            }
            let read: Vec<_> = entries(&payload).collect();
            prop_assert_eq!(read, all.into_iter().map(Some).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = frame(1, &bytes);
            let _ = entries(&bytes).count();
            let _ = ceiling(&bytes);
        }
    }
}
