//! Tests on generated superblocks: they are read back, and no content of a disk causes a panic.

use blklab_md::{RefusalReason, Role, examine};
use proptest::prelude::*;

const DISK: usize = 256 << 10;

/// The fields of a superblock 1.2 that a test chooses.
#[derive(Clone, Debug)]
struct ChosenSuperblock {
    uuid: [u8; 16],
    level: i32,
    layout: u32,
    size: u64,
    chunk: u32,
    disks: u32,
    events: u64,
    number: u16,
    roles: Vec<u16>,
    shift: u8,
    entries: Vec<(u64, u64)>,
}

fn chosen() -> impl Strategy<Value = ChosenSuperblock> {
    let entries = prop::collection::vec((0..1_u64 << 40, 1..512_u64), 0..=512);
    let first = (any::<[u8; 16]>(), -4..=10_i32, any::<u32>(), any::<u64>(), any::<u32>());
    let second = (1..=1920_u32, any::<u64>(), prop::collection::vec(any::<u16>(), 1..=1920), 0..=3_u8, entries);
    (first, second, any::<prop::sample::Index>()).prop_map(
        |((uuid, level, layout, size, chunk), (disks, events, roles, shift, entries), index)| ChosenSuperblock {
            uuid,
            level,
            layout,
            size,
            chunk,
            disks,
            events,
            number: index.index(roles.len()) as u16,
            roles,
            shift,
            entries,
        },
    )
}

/// A disk with that superblock 1.2 and its bad-block list 16 sectors behind it.
fn written(chosen: &ChosenSuperblock) -> Vec<u8> {
    let mut disk = vec![0_u8; DISK];
    let mut put = |at: usize, bytes: &[u8]| disk[4096 + at..4096 + at + bytes.len()].copy_from_slice(bytes);
    put(0, &0xa92b_4efc_u32.to_le_bytes());
    put(4, &1_u32.to_le_bytes());
    put(8, &8_u32.to_le_bytes());
    put(16, &chosen.uuid);
    put(32, b"host:name");
    put(72, &chosen.level.to_le_bytes());
    put(76, &chosen.layout.to_le_bytes());
    put(80, &chosen.size.to_le_bytes());
    put(88, &chosen.chunk.to_le_bytes());
    put(92, &chosen.disks.to_le_bytes());
    put(128, &2048_u64.to_le_bytes());
    put(136, &2048_u64.to_le_bytes());
    put(144, &8_u64.to_le_bytes());
    put(160, &u32::from(chosen.number).to_le_bytes());
    put(185, &[chosen.shift]);
    put(186, &8_u16.to_le_bytes());
    put(188, &16_i32.to_le_bytes());
    put(200, &chosen.events.to_le_bytes());
    put(208, &u64::MAX.to_le_bytes());
    put(220, &(chosen.roles.len() as u32).to_le_bytes());
    for (slot, role) in chosen.roles.iter().enumerate() {
        put(256 + 2 * slot, &role.to_le_bytes());
    }
    for at in 0..512 {
        let word = chosen.entries.get(at).map_or(u64::MAX, |(sector, many)| sector << 10 | many);
        // The roles of more than 1,920 members would reach into the list.
        put(8192 + 8 * at, &word.to_le_bytes());
    }
    let end = 4096 + 256 + 2 * chosen.roles.len();
    sign(&mut disk, end);
    disk
}

/// Writes the checksum of a superblock that ends at `end`, as the kernel does: word by word, with an odd one added.
fn sign(disk: &mut [u8], end: usize) {
    disk[4096 + 216..4096 + 220].fill(0);
    let mut sum = 0_u64;
    let words = disk[4096..end].chunks(4);
    for word in words {
        let mut whole = [0; 4];
        whole[..word.len()].copy_from_slice(word);
        sum += u64::from(u32::from_le_bytes(whole));
    }
    let checksum = (sum as u32).wrapping_add((sum >> 32) as u32);
    disk[4096 + 216..4096 + 220].copy_from_slice(&checksum.to_le_bytes());
}

/// A RAID-1 of two members, this one with number 0; both have roles.
fn mirror() -> ChosenSuperblock {
    ChosenSuperblock {
        uuid: [1; 16],
        level: 1,
        layout: 0,
        size: 100,
        chunk: 0,
        disks: 2,
        events: 1,
        number: 0,
        roles: vec![0, 1],
        shift: 0,
        entries: vec![],
    }
}

/// The reasons to refuse the mirror with these bytes changed in its superblock.
fn refused(at: usize, bytes: &[u8]) -> Vec<(RefusalReason, String)> {
    let mut disk = written(&mirror());
    disk[4096 + at..4096 + at + bytes.len()].copy_from_slice(bytes);
    let slots = u32::from_le_bytes(disk[4096 + 220..4096 + 224].try_into().unwrap()).min(1920);
    sign(&mut disk, 4096 + 256 + 2 * slots as usize);
    let [member] = examine(&disk[..]).unwrap().members.try_into().unwrap();
    assert!(member.checksum.holds());
    member.refusal_reasons.into_iter().map(|refusal| (refusal.reason, refusal.message)).collect()
}

#[test]
fn a_superblock_that_the_kernel_refuses_has_the_reason() {
    use RefusalReason::{BadBlockList, DataOffset, DataSize, Features, MaxDev, NewerKernel, Padding, RaidDisks};
    assert_eq!(refused(0, &[]), []);
    for (at, bytes, reason, text) in [
        (8, &0x8008_u32.to_le_bytes()[..], Features, "unknown feature bits 0x8000"),
        (8, &0x1008_u32.to_le_bytes(), Features, "raid0-layout"),
        (92, &[0; 4], RaidDisks, "raid_disks is 0"),
        (92, &[0xff; 4], RaidDisks, "raid_disks is 4294967295, expected 1 to 2"),
        (92, &3_u32.to_le_bytes(), RaidDisks, "raid_disks is 3"),
        (220, &1921_u32.to_le_bytes(), MaxDev, "max_dev is 1921, expected at most 1920"),
        (12, &[1], Padding, "are not 0"),
        (230, &[1], Padding, "are not 0"),
        (224, &[3], Padding, "are not 0"),
        (224, &4096_u32.to_le_bytes(), NewerKernel, "logical block size is 4096 bytes"),
        (136, &9_u64.to_le_bytes(), DataSize, "data_size is 9"),
        (128, &8_u64.to_le_bytes(), DataOffset, "data_offset is 8, expected at least 9"),
        (186, &9_u16.to_le_bytes(), BadBlockList, "bblog_size is 9, expected at most 8"),
        (188, &[0; 4], BadBlockList, "bblog_offset is 0"),
    ] {
        let reasons = refused(at, bytes);
        assert!(reasons.iter().any(|(code, message)| *code == reason && message.contains(text)), "{at}: {reasons:?}");
        assert!(reasons.len() == 1 || reason == MaxDev, "{at}: {reasons:?}");
    }
}

proptest! {
    #[test]
    fn a_written_superblock_is_read_back(chosen in chosen()) {
        let disk = written(&chosen);
        let examined = examine(&disk[..]).unwrap();
        let [member] = &examined.members[..] else { panic!("{examined:?}") };
        prop_assert!(member.checksum.holds());
        let superblock = &member.superblock;
        prop_assert_eq!(superblock.uuid.0, chosen.uuid);
        prop_assert_eq!((superblock.version, &superblock.name[..]), ("1.2", "host:name"));
        prop_assert_eq!((superblock.level, superblock.layout, superblock.chunk), (chosen.level, chosen.layout, u64::from(chosen.chunk) * 512));
        prop_assert_eq!((superblock.size, superblock.raid_disks, superblock.events), (chosen.size, chosen.disks, chosen.events));
        prop_assert_eq!(superblock.present.len(), chosen.roles.len().min(chosen.disks as usize));
        for (slot, present) in superblock.present.iter().enumerate() {
            prop_assert_eq!(*present, chosen.roles.contains(&(slot as u16)));
        }
        let expected = match chosen.roles[usize::from(chosen.number)] {
            0xffff => (Role::Spare, None),
            0xfffe => (Role::Faulty, None),
            0xfffd => (Role::Journal, None),
            slot => (Role::Active, Some(slot)),
        };
        prop_assert_eq!((superblock.role, superblock.slot), expected);
        let list = member.bad_blocks.as_ref().unwrap();
        let scaled: Vec<_> = chosen.entries.iter().map(|(sector, many)| (sector << chosen.shift, many << chosen.shift)).collect();
        let read: Vec<_> = list.entries.iter().map(|range| (range.sector, range.sectors)).collect();
        prop_assert_eq!(read, scaled);
    }

    #[test]
    fn a_flipped_bit_is_reported_or_harmless(chosen in chosen(), bit in 0..256_usize * 8) {
        let mut disk = written(&chosen);
        disk[4096 + bit / 8] ^= 1 << (bit % 8);
        let examined = examine(&disk[..]).unwrap();
        // Magic, version and its position decide whether it is a superblock; the checksum covers the other bytes.
        if let [member] = &examined.members[..] {
            prop_assert!(!member.checksum.holds());
            prop_assert_eq!(member.refusal_reasons[0].reason, RefusalReason::Checksum);
            prop_assert!(member.problems.iter().all(|problem| !problem.contains("checksum")));
        }
    }

    #[test]
    fn noise_causes_no_panic(noise in prop::collection::vec(any::<u8>(), 0..20_000), at in 0..70_000_usize, length in 0..DISK) {
        let mut disk = vec![0_u8; length];
        for (byte, place) in noise.iter().zip(at..) {
            if let Some(there) = disk.get_mut(place) {
                *there = *byte;
            }
        }
        examine(&disk[..]).unwrap();
    }

    #[test]
    fn a_superblock_with_noise_causes_no_panic(chosen in chosen(), noise in prop::collection::vec((0..16_384_usize, any::<u8>()), 0..60)) {
        let mut disk = written(&chosen);
        for (at, byte) in noise {
            disk[at] = byte;
        }
        examine(&disk[..]).unwrap();
    }
}

#[test]
fn foreign_metadata_is_recognised() {
    let mut disk = vec![0_u8; DISK];
    disk[DISK - 512..DISK - 508].copy_from_slice(&0xde11_de11_u32.to_be_bytes());
    let json = serde_json::to_value(examine(&disk[..]).unwrap()).unwrap();
    assert_eq!(json["foreign"], serde_json::json!(["DDF"]));
    let mut disk = vec![0_u8; DISK];
    disk[DISK - 1024..DISK - 1000].copy_from_slice(b"Intel Raid ISM Cfg Sig. ");
    let json = serde_json::to_value(examine(&disk[..]).unwrap()).unwrap();
    assert_eq!(json["foreign"], serde_json::json!(["Intel IMSM"]));
}

#[test]
fn a_list_beyond_the_device_is_reported() {
    let mut disk = written(&mirror());
    disk[4096 + 188..4096 + 192].copy_from_slice(&i32::MAX.to_le_bytes());
    let examined = examine(&disk[..]).unwrap();
    assert!(examined.members[0].problems.iter().any(|problem| problem.contains("not on the device")));
}
