//! Tests on superblocks that real kernels wrote, compared with mdadm's output.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use blklab_md::{Examined, Member, Role, Source, examine};
use flate2::read::GzDecoder;

/// The size of the recorded disks in bytes.
const DISK: u64 = 256 << 20;

/// A disk of which only the beginning and the end were recorded; the rest is zeros.
struct RecordedDisk {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Source for RecordedDisk {
    fn bytes(&self) -> u64 {
        DISK
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let tail = DISK - self.tail.len() as u64;
        for (at, byte) in (offset..).zip(buffer) {
            *byte = match at.checked_sub(tail) {
                Some(at) => self.tail[at as usize],
                None => self.head.get(at as usize).copied().unwrap_or(0),
            };
        }
        Ok(())
    }
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/md")
}

fn part(name: &str, which: &str) -> Vec<u8> {
    let mut content = Vec::new();
    if let Ok(file) = File::open(data().join("sb").join(format!("{name}.{which}.gz"))) {
        GzDecoder::new(file).read_to_end(&mut content).unwrap();
    }
    content
}

fn examined(name: &str) -> Examined {
    let recorded = RecordedDisk { head: part(name, "head64k"), tail: part(name, "tail128k") };
    assert!(!recorded.head.is_empty(), "{name}");
    examine(&recorded).unwrap()
}

fn member(name: &str) -> Member {
    let examined = examined(name);
    assert_eq!(examined.foreign, []);
    let [member] = examined.members.try_into().unwrap();
    member
}

/// `Key : value` of a device in the output of `mdadm --examine`.
fn text(array: &str, device: &str) -> BTreeMap<String, String> {
    let printed = std::fs::read_to_string(data().join(format!("text/{array}.examine.txt"))).unwrap();
    let (_, rest) = printed.split_once(&format!("\n/dev/{device}:\n")).unwrap();
    let lines = rest.lines().take_while(|line| !line.starts_with("rc="));
    lines
        .filter_map(|line| line.split_once(" : "))
        .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn every_member_is_read_as_mdadm_does() {
    for (array, version) in [
        ("raid1-10", "1.0"),
        ("raid1-11", "1.1"),
        ("raid1-12", "1.2"),
        ("raid1-12-bitmap", "1.2"),
        ("raid10-n2", "1.2"),
        ("raid10-f2", "1.2"),
        ("raid10-o2", "1.2"),
    ] {
        for (slot, device) in ["vda", "vdb"].into_iter().enumerate() {
            let member = member(&format!("{array}.{device}"));
            let superblock = &member.superblock;
            assert_eq!(member.problems, Vec::<String>::new(), "{array} {device}");
            assert!(member.checksum.holds());
            assert_eq!(superblock.version, version);
            assert_eq!(superblock.present, [true, true]);
            assert_eq!((superblock.role, superblock.slot), (Role::Active, Some(slot as u16)));
            if !data().join(format!("text/{array}.examine.txt")).exists() {
                continue;
            }
            let printed = text(array, device);
            assert_eq!(superblock.uuid.to_string(), printed["Array UUID"]);
            assert_eq!(superblock.device_uuid.unwrap().to_string(), printed["Device UUID"]);
            assert_eq!(printed["Raid Devices"], superblock.raid_disks.to_string());
            assert_eq!(printed["Events"], superblock.events.to_string());
            assert!(printed["Name"].starts_with(&superblock.name));
            assert!(printed["Avail Dev Size"].starts_with(&format!("{} sectors", superblock.data_size)));
            assert_eq!(printed["Checksum"], format!("{:x} - correct", member.checksum.stored));
            assert_eq!(printed["Super Offset"], format!("{} sectors", member.offset / 512));
            let list = member.bad_blocks.unwrap();
            let offset = list.sector as i64 - member.offset as i64 / 512;
            let log = format!("{} entries available at offset {offset} sectors", list.sectors * 64);
            assert_eq!(printed["Bad Block Log"], log);
        }
    }
}

#[test]
fn version_0_90_is_read() {
    for (slot, device) in ["vda", "vdb"].into_iter().enumerate() {
        let member = member(&format!("raid1-090.{device}"));
        let superblock = &member.superblock;
        let printed = text("raid1-090", device);
        assert!(member.checksum.holds());
        assert!(printed["UUID"].starts_with(&superblock.uuid.to_string()));
        assert_eq!(printed["Checksum"], format!("{:x} - correct", member.checksum.stored));
        assert_eq!(printed["Events"], superblock.events.to_string());
        assert!(printed["Used Dev Size"].starts_with(&(superblock.size / 2).to_string()));
        assert_eq!((superblock.version, superblock.level, superblock.raid_disks), ("0.90", 1, 2));
        assert_eq!((superblock.resync_offset, &superblock.present[..]), (None, &[true, true][..]));
        assert_eq!((superblock.role, superblock.slot), (Role::Active, Some(slot as u16)));
        assert_eq!(member.bad_blocks, None);
    }
}

#[test]
fn bad_block_lists_of_every_length_are_read() {
    assert_eq!(member("raid1-12-conf-bblno.vda").bad_blocks, None);
    let empty = member("raid1-12.vda").bad_blocks.unwrap();
    assert_eq!((empty.active, empty.entries.len(), empty.sector, empty.sectors), (false, 0, 24, 8));
    let some = member("raid1-12-populated.vda").bad_blocks.unwrap();
    let ranges: Vec<_> = some.entries.iter().map(|range| (range.sector, range.sectors)).collect();
    assert_eq!(ranges, [(4096, 8), (10000, 100), (21024, 476), (20512, 512), (20000, 512)]);
    let full = member("raid1-12-full.vda").bad_blocks.unwrap();
    assert_eq!((full.entries.len(), full.entries[511].sector), (512, 10000 + 511 * 16));
    let twin = member("raid1-12-populated.vdb").bad_blocks.unwrap();
    assert_eq!((twin.active, twin.entries.len()), (false, 0));
}

#[test]
fn bitmaps_are_read() {
    let member = member("raid1-12-bitmap.vda");
    let bitmap = member.bitmap_superblock.clone().unwrap();
    assert_eq!(bitmap.uuid, member.superblock.uuid);
    assert_eq!((bitmap.version, bitmap.chunk, bitmap.daemon_sleep), (4, 64 << 20, 5));
    assert_eq!((bitmap.sync_size, bitmap.state), (522_240, 0));
    assert!(self::member("raid1-12.vda").bitmap_superblock.is_none());
}

#[test]
fn an_add_that_failed_leaves_a_spare_with_zeros_for_a_list() {
    let member = member("raid1-12-add-failed-6.12-zero-bbl.vdc");
    assert_eq!(member.superblock.role, Role::Spare);
    let list = member.bad_blocks.unwrap();
    assert!(list.active);
    assert_eq!(list.entries.len(), 512);
    assert!(list.entries.iter().all(|range| (range.sector, range.sectors) == (0, 0)));
}

#[test]
fn every_file_that_was_recorded_is_read() {
    let names: Vec<_> = std::fs::read_dir(data().join("sb")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let heads = names.iter().filter_map(|name| name.to_str()?.strip_suffix(".head64k.gz"));
    for name in heads {
        assert_eq!(member(name).refusal_reasons, [], "{name}");
    }
    assert!(names.len() >= 25);
}
