//! Objects that have not changed for long, in little memory.
//!
//! A fleet's objects are much alike: the Bundles of one application have the same name in the namespace of every cluster, and
//! differ in a few numbers. Packed against one of them (LZ4 with a dictionary), the next takes a twentieth, and is read
//! faster than it could be copied.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use lz4_flex::block::{compress_with_dict, decompress_with_dict};

use super::Record;

/// Smaller ones are not worth it.
const SMALLEST: usize = 256;
/// A packed object is at most this part of what it was.
const WORTH: usize = 2;
/// A dictionary by which objects become no smaller than this part of what they are is given up …
const POOR: usize = 4;
/// … when so many were packed with it, so that there are few beside the objects whatever they are.
const TRIED: u32 = 32;
/// Names with a dictionary of their own in one table.
const NAMES: usize = 4_096;

/// An object as it is kept: reading it takes memory only while it is looked at.
#[derive(Debug, Clone)]
pub enum Kept {
    /// As it was written.
    Plain(Record),
    /// Small.
    Packed(Packed),
}

/// An object that was packed, and what it is unpacked with.
#[derive(Debug, Clone)]
pub struct Packed {
    revision: u64,
    bytes: Arc<[u8]>,
    dictionary: Bytes,
    length: usize,
}

impl Kept {
    /// Revision of its last change.
    pub fn revision(&self) -> u64 {
        match self {
            Kept::Plain(record) => record.revision,
            Kept::Packed(packed) => packed.revision,
        }
    }

    /// Bytes of the object as it is read.
    pub fn length(&self) -> usize {
        match self {
            Kept::Plain(record) => record.bytes.len(),
            Kept::Packed(packed) => packed.length,
        }
    }

    #[cfg(test)]
    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Kept::Packed(_))
    }

    /// The object as it was written.
    pub fn record(&self) -> Record {
        match self {
            Kept::Plain(record) => record.clone(),
            Kept::Packed(packed) => Record {
                revision: packed.revision,
                // It was tried when it was packed.
                bytes: packed.unpacked().unwrap_or_default(),
            },
        }
    }
}

impl Packed {
    fn unpacked(&self) -> Option<Bytes> {
        let unpacked = decompress_with_dict(&self.bytes, self.length, &self.dictionary);
        unpacked.ok().map(Bytes::from)
    }
}

/// What the objects of one table are packed with.
#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    /// Of objects whose name no other one has.
    any: Option<Dictionary>,
    /// By name; none yet where there was one object of the name.
    by_name: HashMap<Arc<str>, Option<Dictionary>>,
}

#[derive(Debug)]
struct Dictionary {
    bytes: Bytes,
    used: u32,
}

impl Dictionary {
    fn of(record: &Record) -> Self {
        Self {
            // Not the part of some larger buffer.
            bytes: Bytes::copy_from_slice(&record.bytes),
            used: 0,
        }
    }
}

impl Dictionaries {
    /// The object as it is kept when nobody resumes from before its last change any more.
    pub(super) fn keep(&mut self, name: &Arc<str>, record: Record) -> Kept {
        match self.pack(name, &record) {
            Some(packed) => Kept::Packed(packed),
            None => Kept::Plain(record),
        }
    }

    /// The object, packed; `None` if that is not worth it.
    fn pack(&mut self, name: &Arc<str>, record: &Record) -> Option<Packed> {
        if record.bytes.len() < SMALLEST {
            return None;
        }
        if self.by_name.len() >= NAMES && !self.by_name.contains_key(name) {
            // What was packed has its dictionary with it.
            self.by_name.clear();
        }
        let own = match self.by_name.get_mut(name) {
            Some(own) => own.get_or_insert_with(|| Dictionary::of(record)),
            None => {
                self.by_name.insert(name.clone(), None);
                self.any.get_or_insert_with(|| Dictionary::of(record))
            }
        };
        let length = record.bytes.len();
        let bytes = compress_with_dict(&record.bytes, &own.bytes);
        let packed = Packed {
            revision: record.revision,
            bytes: bytes.into(),
            dictionary: own.bytes.clone(),
            length,
        };
        own.used += 1;
        if own.used >= TRIED && packed.bytes.len() > length / POOR {
            *own = Dictionary::of(record);
        }
        let worth = packed.bytes.len() <= length / WORTH;
        // Nothing that was acknowledged hangs on a compressor.
        let same = || packed.unpacked().is_some_and(|unpacked| unpacked == record.bytes);
        (worth && same()).then_some(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(revision: u64, text: &str) -> Record {
        Record {
            revision,
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        }
    }

    /// As a Bundle of an application is: long, and in each cluster a little different.
    fn bundle(application: u32, cluster: u32) -> String {
        let part = |n: u32| format!("{:x}", n.wrapping_mul(2_654_435_761).rotate_left(n % 31));
        let body: Vec<String> = (0..300).map(|n| part(application * 1_000 + n)).collect();
        format!(
            "{{\"cluster\":\"{}\",\"body\":\"{}\"}}",
            part(cluster),
            body.join(",")
        )
    }

    #[test]
    fn objects_of_one_name_are_packed_by_each_other_and_come_back() {
        let mut dictionaries = Dictionaries::default();
        let mut all = Vec::new();
        for cluster in 0..100 {
            for application in 0..5 {
                let record = record(
                    u64::from(cluster * 5 + application),
                    &bundle(application, cluster),
                );
                let name = format!("app-{application}").into();
                all.push((dictionaries.pack(&name, &record), record));
            }
        }
        let plain: usize = all.iter().map(|(_, record)| record.bytes.len()).sum();
        let mut kept = 0;
        for (packed, record) in all {
            let packed = packed.map_or_else(|| Kept::Plain(record.clone()), Kept::Packed);
            kept += match &packed {
                Kept::Plain(record) => record.bytes.len(),
                Kept::Packed(packed) => packed.bytes.len(),
            };
            assert_eq!(packed.record(), record);
            assert_eq!(
                (packed.revision(), packed.length()),
                (record.revision, record.bytes.len())
            );
        }
        assert!(kept * 20 < plain, "{kept} of {plain}");
    }

    #[test]
    fn what_becomes_no_smaller_stays_as_it_is() {
        let mut dictionaries = Dictionaries::default();
        let name: Arc<str> = "one".into();
        assert!(
            dictionaries.pack(&name, &record(1, "{}")).is_none(),
            "it is small"
        );
        let noise = |application| record(2, &bundle(application, 0));
        let first = dictionaries.pack(&name, &noise(0));
        assert!(first.is_some(), "by itself");
        assert!(dictionaries.pack(&"two".into(), &noise(1)).is_none());
    }

    #[test]
    fn a_dictionary_that_does_not_help_is_given_up_and_few_are_kept() {
        let mut dictionaries = Dictionaries::default();
        let name: Arc<str> = "one".into();
        let mut used = std::collections::BTreeSet::new();
        for n in 0..1_000 {
            dictionaries.pack(&name, &record(1, &bundle(n, n)));
            let own = dictionaries.by_name.get(&name).unwrap();
            used.extend(own.as_ref().map(|own| own.bytes.as_ptr() as usize));
        }
        assert!(
            used.len() > 1 && used.len() <= 1_000 / TRIED as usize + 1,
            "{}",
            used.len()
        );
        // The application has become another one: the new dictionary is one of its own.
        for n in 0..TRIED {
            dictionaries.pack(&name, &record(1, &bundle(5_000, n)));
        }
        let packed = dictionaries.pack(&name, &record(1, &bundle(5_000, 7_000)));
        assert!(packed.is_some());
        for n in 0..NAMES * 2 {
            dictionaries.pack(&format!("name-{n}").into(), &record(1, &bundle(5_000, 1)));
            assert!(dictionaries.by_name.len() <= NAMES);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_packed_comes_back(texts in prop::collection::vec("([a-c]{0,9}|.{0,40}){0,60}", 1..12)) {
            let mut dictionaries = Dictionaries::default();
            for (n, text) in texts.iter().enumerate() {
                let record = record(n as u64, text);
                let name = format!("name-{}", n % 2).into();
                if let Some(packed) = dictionaries.pack(&name, &record) {
                    prop_assert_eq!(Kept::Packed(packed).record(), record);
                }
            }
        }
    }
}
