//! Bits that flip and files that go: nothing wrong is ever served, and the error says where.

use super::*;
use crate::{clock::Dice, store::Disk};

const TABLE: &str = "configmaps";

/// A store with a base, several segments and an unfinished last one; and what is in it.
fn filled() -> (FaultyDisk, Objects) {
    let disk = FaultyDisk::default();
    let store = opened(&disk);
    for n in 0..300_u32 {
        let content = format!("{n}-{}", "x".repeat(700));
        put(
            &store,
            &key(TABLE, &format!("object-{}", n % 17)),
            content.as_bytes(),
        )
        .unwrap();
        store.commit().unwrap();
        store.keep_room();
    }
    let objects = objects(&store, &[TABLE]);
    (disk, objects)
}

#[test]
fn a_flipped_bit_is_found_or_changes_nothing() {
    let (disk, whole) = filled();
    let files: Vec<(String, u64)> = disk.list().unwrap();
    let bases = files.iter().filter(|(name, _)| name.starts_with("base-")).count();
    assert!(bases == 1 && files.len() > 3, "{files:?}");
    let dice = Dice::seeded(3);
    let (mut refused, mut cut, mut harmless) = (0, 0, 0);
    for _ in 0..2_000 {
        let (name, len) = &files[usize::try_from(dice.next() % files.len() as u64).unwrap()];
        let offset = dice.next() % len;
        let flipped = disk.copy();
        flipped.damage(name, |bytes| {
            bytes[usize::try_from(offset).unwrap()] ^= 1 << (dice.next() % 8)
        });
        match open(&flipped) {
            Err(JournalError::Damaged {
                file, offset: told, ..
            }) => {
                assert_eq!(&file, name);
                // The frame with the bit begins where the error says.
                let longest = if name.starts_with("base-") { 300_000 } else { 5_000 };
                assert!(
                    told <= offset && offset < told + longest,
                    "{name}: told {told}, flipped {offset}"
                );
                refused += 1;
            }
            Err(error) => panic!("{name} at {offset}: {error}"),
            Ok(store) => {
                let found = objects(&store, &[TABLE]);
                if found == whole {
                    harmless += 1;
                } else {
                    // Only the very last write looks like one that was never finished.
                    let differ: Vec<_> = whole
                        .iter()
                        .filter(|(key, record)| found.get(key) != Some(record))
                        .collect();
                    assert_eq!(differ.len(), 1, "{name} at {offset}");
                    assert_eq!(differ[0].1.revision, revision(&store) + 1);
                    cut += 1;
                }
            }
        }
    }
    assert!(
        refused > 500 && harmless > 100 && cut > 0,
        "{refused} {harmless} {cut}"
    );
}

#[test]
fn a_file_that_is_gone_is_missed() {
    let (disk, _) = filled();
    let files: Vec<String> = disk.list().unwrap().into_iter().map(|(name, _)| name).collect();
    let mut missed = 0;
    for name in files.iter().filter(|name| !name.starts_with("spare-")) {
        let without = disk.copy();
        without.lose(name);
        let error = open(&without).map(|_| ()).unwrap_err();
        assert!(
            matches!(error, JournalError::Missing { .. } | JournalError::Damaged { .. }),
            "{name}: {error}"
        );
        missed += 1;
    }
    assert!(missed > 2, "{files:?}");
}

#[test]
fn the_error_names_file_offset_and_remedy() {
    let (disk, _) = filled();
    let names: Vec<String> = disk.list().unwrap().into_iter().map(|(name, _)| name).collect();
    let first = names.iter().find(|name| name.starts_with("segment-")).unwrap();
    disk.damage(first, |bytes| bytes[100] ^= 1);
    let error = open(&disk).map(|_| ()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("disk/{first} is damaged at offset 64: frame ")),
        "{error}"
    );
    assert!(
        error.contains("restore a backup into an empty directory"),
        "{error}"
    );
}

#[test]
fn files_of_two_stores_are_not_mixed() {
    let (one, _) = filled();
    let (other, _) = filled();
    let names: Vec<String> = other.list().unwrap().into_iter().map(|(name, _)| name).collect();
    let last = names.iter().rfind(|name| name.starts_with("segment-")).unwrap();
    let mut content = vec![0; usize::try_from(other.open(last).unwrap().size().unwrap()).unwrap()];
    other.open(last).unwrap().read_at(0, &mut content).unwrap();
    one.damage(last, |bytes| *bytes = content);
    let error = open(&one).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("the file belongs to another store"), "{error}");
}

#[test]
fn a_newer_layout_is_left_alone() {
    let (disk, _) = filled();
    let names: Vec<String> = disk.list().unwrap().into_iter().map(|(name, _)| name).collect();
    let base = names.iter().find(|name| name.starts_with("base-")).unwrap();
    disk.damage(base, |bytes| {
        bytes[8] = 2;
        bytes[12..16].fill(0);
        let sum = crc32fast::hash(&bytes[..64]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
    });
    let error = open(&disk).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error,
        format!("disk/{base} has layout version 2, and this program reads version 1: use the newer program")
    );
}
