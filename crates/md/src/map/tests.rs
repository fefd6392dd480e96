//! Tests of the maps: against a real kernel's arrays, against their own promises, and against layouts made by hand.

use super::*;
use crate::Level;
use proptest::prelude::*;
use std::collections::HashSet;

/// Where md of Linux 6.1 put every chunk of small arrays: see the file.
const KERNEL: &str = include_str!("../../tests/data/mapping.txt");

/// What the maps of all levels have in common.
trait Map {
    fn capacity(&self) -> u64;
    fn locate_copies(&self, sector: u64) -> Vec<MemberSector>;
    fn array_sector(&self, place: MemberSector) -> Option<(u64, usize)>;
    fn boundary(&self, sector: u64) -> u64;
}

macro_rules! single {
    ($type:ty, $($call:tt)?) => {
        impl Map for $type {
            fn capacity(&self) -> u64 {
                self.capacity$($call)?
            }
            fn locate_copies(&self, sector: u64) -> Vec<MemberSector> {
                vec![self.locate(sector)]
            }
            fn array_sector(&self, place: MemberSector) -> Option<(u64, usize)> {
                Some((self.array_sector(place)?, 0))
            }
            fn boundary(&self, sector: u64) -> u64 {
                self.boundary(sector)
            }
        }
    };
}
single!(LinearMap, ());
single!(Raid0Map,);
single!(Raid456Map,);

impl Map for Raid10Map {
    fn capacity(&self) -> u64 {
        self.capacity
    }
    fn locate_copies(&self, sector: u64) -> Vec<MemberSector> {
        let mut places = vec![MemberSector { slot: 0, sector: 0 }; self.copies() as usize];
        self.locate_copies(sector, &mut places);
        places
    }
    fn array_sector(&self, place: MemberSector) -> Option<(u64, usize)> {
        let (sector, copy) = self.array_sector(place)?;
        Some((sector, copy as usize))
    }
    fn boundary(&self, sector: u64) -> u64 {
        self.boundary(sector)
    }
}

/// Checks that every page has its own member sectors, within the members and on different ones, and that the inverse
/// finds them.
fn check(map: &dyn Map, members: &[u64]) -> Result<(), TestCaseError> {
    let mut taken = HashSet::new();
    let mut before: Option<(u64, Vec<MemberSector>)> = None;
    // One sector in the middle of each page, and the last sector of the array.
    for sector in (0..map.capacity()).step_by(8).map(|sector| sector + 3).chain([map.capacity() - 1]) {
        if sector >= map.capacity() || before.as_ref().is_some_and(|before| before.0 == sector) {
            continue;
        }
        let places = map.locate_copies(sector);
        let slots: HashSet<u32> = places.iter().map(|place| place.slot).collect();
        prop_assert_eq!(slots.len(), places.len(), "two copies of {} on a member", sector);
        for (copy, &place) in places.iter().enumerate() {
            prop_assert!(place.sector < members[place.slot as usize], "{} beyond its member", sector);
            prop_assert!(taken.insert(place), "{:?} taken twice", place);
            prop_assert_eq!(map.array_sector(place), Some((sector, copy)));
        }
        if let Some((previous, before)) = before {
            let distance = sector - previous;
            if distance < map.boundary(previous) {
                for (from, to) in before.iter().zip(&places) {
                    prop_assert_eq!((from.slot, from.sector + distance), (to.slot, to.sector));
                }
            }
        }
        before = Some((sector, places));
    }
    let copies = map.locate_copies(0).len() as u64;
    prop_assert!(map.capacity() * copies <= members.iter().sum());
    // Any other member sector maps to at most one array sector, below the capacity.
    for (slot, &sectors) in (0..).zip(members) {
        for sector in (0..sectors + 64).step_by(5) {
            let place = MemberSector { slot, sector };
            if let Some((sector, copy)) = map.array_sector(place) {
                prop_assert!(sector < map.capacity());
                prop_assert_eq!(map.locate_copies(sector)[copy], place);
            }
        }
    }
    prop_assert_eq!(map.array_sector(MemberSector { slot: members.len() as u32, sector: 0 }), None);
    Ok(())
}

/// Rows dealt out as md(4) has it: each chunk `near` times, one member after the other.
fn near_rows(disks: usize, near: usize, rows: usize) -> Vec<Vec<u64>> {
    let deck: Vec<u64> = (0..(rows * disks) as u64).map(|card| card / near as u64).collect();
    deck.chunks(disks).map(<[u64]>::to_vec).collect()
}

/// The same rows one or more members to the right, for the far copies.
fn turned(row: &[u64], by: usize) -> Vec<u64> {
    let mut row = row.to_vec();
    let wide = row.len();
    row.rotate_right(by % wide);
    row
}

const ALGORITHMS: [ParityAlgorithm; 6] = [
    ParityAlgorithm::LeftAsymmetric,
    ParityAlgorithm::RightAsymmetric,
    ParityAlgorithm::LeftSymmetric,
    ParityAlgorithm::RightSymmetric,
    ParityAlgorithm::ParityFirst,
    ParityAlgorithm::ParityLast,
];

/// One of the kernel's arrays, by its header line.
struct KernelArray {
    map: Result<Box<dyn Map>, MapError>,
    /// The same map, if the level has parity.
    parity: Option<Raid456Map>,
    members: Vec<u64>,
    chunk: u64,
}

impl KernelArray {
    fn new(header: &str) -> Self {
        let number = |name| field(header, name).parse::<u64>().unwrap();
        let (chunk, component) = (number("chunk") / 512, number("component") * 2);
        let layout = u32::from_str_radix(&field(header, "layout")[2..], 16).unwrap();
        let members: Vec<u64> =
            field(header, "members").split(',').map(|kib| kib.parse::<u64>().unwrap() * 2).collect();
        let disks = members.len() as u32;
        let mut parity = None;
        let map: Result<Box<dyn Map>, _> = match header.split(' ').next().unwrap() {
            "linear" => Ok(Box::new(LinearMap::new(&members, chunk).unwrap())),
            "raid0" => {
                let layout = if layout == 2 { ZoneLayout::Alternate } else { ZoneLayout::Original };
                Ok(Box::new(Raid0Map::new(&members, chunk, layout).unwrap()))
            }
            "raid10" => {
                let (near, far, offset) = (layout & 255, layout >> 8 & 255, layout >> 16 & 1 == 1);
                let sets = [FarSets::Whole, FarSets::Divided, FarSets::Copies][(layout >> 17) as usize];
                match Raid10Map::new(disks, near, far, offset, sets, chunk, component) {
                    Ok(map) => Ok(Box::new(map)),
                    Err(error) => Err(error),
                }
            }
            level => {
                let level = [Level::Raid4, Level::Raid5, Level::Raid6][level[4..].parse::<usize>().unwrap() - 4];
                let map = Raid456Map::new(level, disks, ALGORITHMS[layout as usize], chunk, component).unwrap();
                parity = Some(map.clone());
                Ok(Box::new(map))
            }
        };
        Self { map, parity, members, chunk }
    }
}

/// The value of a field in a header line.
fn field<'a>(header: &'a str, name: &str) -> &'a str {
    header.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

#[test]
fn maps_match_those_of_linux() {
    let (mut arrays, mut refused) = (0, 0);
    let mut lines = KERNEL.lines().filter(|line| !line.starts_with('#'));
    while let Some(header) = lines.next() {
        let KernelArray { map, parity, members, chunk } = KernelArray::new(header);
        let cells: Vec<&str> = lines.by_ref().take(members.len()).collect();
        let size: u64 = field(header, "size").parse().unwrap();
        arrays += 1;
        let Ok(map) = map else {
            // The kernel accepts it, but has both copies of some chunk on one member.
            let mut member_chunks: Vec<Vec<u64>> =
                cells.iter().map(|line| line.split(' ').filter_map(|cell| cell.parse().ok()).collect()).collect();
            member_chunks.iter_mut().for_each(|chunks| chunks.dedup());
            let once = |chunk| member_chunks.iter().filter(|chunks| chunks.contains(&chunk)).count() < 2;
            assert!((0..size / chunk).any(once), "{header}");
            refused += 1;
            continue;
        };
        assert_eq!(map.capacity(), size, "{header}");
        let mut seen = 0;
        for (slot, line) in (0..).zip(cells) {
            if let Some((first, count)) = line.split_once('+') {
                // A linear member: its first page and how many.
                let (first, count): (u64, u64) = (first.parse().unwrap(), count.parse().unwrap());
                for page in 0..count {
                    assert_eq!(
                        map.locate_copies((first + page) * 8),
                        [MemberSector { slot, sector: page * 8 }],
                        "{header}"
                    );
                }
                seen += count * 8;
                continue;
            }
            for (row, cell) in (0..).zip(line.split(' ')) {
                let place = MemberSector { slot, sector: row * chunk };
                if let Ok(array) = cell.parse::<u64>() {
                    assert!(map.locate_copies(array * chunk).contains(&place), "{header}: {array} at {place:?}");
                    assert_eq!(map.array_sector(place).unwrap().0, array * chunk, "{header}");
                    seen += chunk;
                    continue;
                }
                assert_eq!(map.array_sector(place), None, "{header}: {place:?}");
                let parity = parity.as_ref().map(|map| map.parity_slots(row));
                match cell {
                    "P" => assert_eq!(parity.unwrap().p, slot, "{header} row {row}"),
                    "Q" => assert_eq!(parity.unwrap().q, Some(slot), "{header} row {row}"),
                    _ => assert_eq!(cell, "-"),
                }
            }
        }
        // Every copy of every chunk was seen.
        let whole = if chunk > 0 { size.next_multiple_of(chunk) } else { size };
        assert_eq!(seen, whole * map.locate_copies(0).len() as u64, "{header}");
        check(map.as_ref(), &members).unwrap();
    }
    assert!(arrays > 100 && refused < 10, "{arrays} arrays, {refused} refused");
}

#[test]
fn near_layouts_match_rows_dealt_by_hand() {
    for (disks, near) in [(2, 2), (3, 2), (4, 2), (5, 2), (5, 3), (7, 3)] {
        let map = Raid10Map::new(disks, near, 1, false, FarSets::Whole, 8, 80).unwrap();
        for (row, cells) in (0..).zip(near_rows(disks as usize, near as usize, 10)) {
            for (slot, chunk) in (0..).zip(cells).filter(|(_, chunk)| chunk * 8 < map.capacity()) {
                assert_eq!(
                    map.array_sector(MemberSector { slot, sector: row * 8 }).map(|(sector, _)| sector),
                    Some(chunk * 8)
                );
            }
        }
    }
}

#[test]
fn far_and_offset_layouts_match_rows_dealt_by_hand() {
    for (disks, far) in [(2, 2), (3, 2), (4, 2), (5, 2), (5, 3), (7, 4)] {
        for offset in [false, true] {
            let map = Raid10Map::new(disks, 1, far, offset, FarSets::Whole, 8, 6 * 8 * u64::from(far)).unwrap();
            for (row, cells) in (0..).zip(near_rows(disks as usize, 1, 6)) {
                for copy in 0..u64::from(far) {
                    let sector = if offset { row * u64::from(far) + copy } else { copy * 6 + row } * 8;
                    for (slot, chunk) in (0..).zip(turned(&cells, copy as usize)) {
                        assert_eq!(map.array_sector(MemberSector { slot, sector }), Some((chunk * 8, copy as u32)));
                    }
                }
            }
        }
    }
}

#[test]
fn two_mirrored_members_are_not_split() {
    let near = Raid10Map::new(2, 2, 1, false, FarSets::Whole, 128, 1 << 20).unwrap();
    assert_eq!(near.boundary(5), u64::MAX);
    let far = Raid10Map::new(2, 1, 2, false, FarSets::Whole, 128, 1 << 20).unwrap();
    assert_eq!(far.boundary(5), 123);
}

#[test]
fn impossible_layouts_are_refused() {
    let raid10 = |disks, near, far, offset, sets, chunk, member| {
        Raid10Map::new(disks, near, far, offset, sets, chunk, member).unwrap_err().to_string()
    };
    let whole = FarSets::Whole;
    assert_eq!(
        raid10(2, 3, 1, false, whole, 128, 1024),
        "3 copies on 2 members: expected at most one copy for each member"
    );
    assert_eq!(
        raid10(2, 1, 1, false, whole, 128, 1024),
        "RAID-10 needs at least two copies, and near and far copies of at least one each"
    );
    assert_eq!(raid10(2, 2, 1, false, whole, 0, 1024), "a chunk of 0 sectors: expected a multiple of 4 KiB");
    assert_eq!(raid10(2, 2, 1, false, whole, 24, 1024), "a chunk of 24 sectors: expected a power of two");
    assert_eq!(raid10(2, 1, 2, false, whole, 128, 255), "a member of 255 sectors: smaller than a chunk");
    assert_eq!(raid10(5, 2, 2, true, whole, 128, 1024), "copies would overlap in this layout on 5 members");
    assert_eq!(raid10(3, 1, 2, false, FarSets::Divided, 128, 1024), "copies would overlap in this layout on 3 members");
    assert_eq!(raid10(4, 1, 2, false, whole, 8, u64::MAX), "the array is larger than 2^64 sectors");
    let raid6 = Raid456Map::new(Level::Raid6, 3, ParityAlgorithm::LeftSymmetric, 128, 1024).unwrap_err();
    assert_eq!(raid6.to_string(), "too few members: 3, expected at least 4");
    assert!(Raid0Map::new(&[], 8, ZoneLayout::Original).is_err());
    assert!(Raid0Map::new(&[80, 4], 8, ZoneLayout::Original).is_err());
    assert!(LinearMap::new(&[], 0).is_err() && LinearMap::new(&[8, 7], 8).is_err());
}

/// Chunks of 4 to 32 KiB.
fn chunks() -> impl Strategy<Value = u64> {
    (0u32..4).prop_map(|power| 8 << power)
}

proptest! {
    #[test]
    fn linear_maps_are_consistent(members in prop::collection::vec(1u64..400, 1..6), rounding in 0u64..20) {
        if let Ok(map) = LinearMap::new(&members, rounding) {
            check(&map, &members)?;
        }
    }

    #[test]
    fn raid0_maps_are_consistent(members in prop::collection::vec(80u64..800, 1..6), pages in 1u64..10, original: bool) {
        let layout = if original { ZoneLayout::Original } else { ZoneLayout::Alternate };
        let map = Raid0Map::new(&members, pages * 8, layout).unwrap();
        check(&map, &members)?;
        if (pages * 8).is_power_of_two() {
            let used: u64 = members.iter().map(|sectors| sectors - sectors % (pages * 8)).sum();
            prop_assert_eq!(map.capacity(), used);
        }
    }

    #[test]
    fn raid10_maps_are_consistent(
        (disks, near, far) in (2u32..10).prop_flat_map(|disks| (Just(disks), 1..=disks, 1..=disks)),
        offset: bool,
        sets in prop::sample::select(&[FarSets::Whole, FarSets::Divided, FarSets::Copies]),
        chunk in chunks(),
        member in 300u64..900,
    ) {
        match Raid10Map::new(disks, near, far, offset, sets, chunk, member) {
            Ok(map) => check(&map, &vec![map.used; disks as usize])?,
            Err(MapError::Overlap(_)) => {
                prop_assert!(sets != FarSets::Whole || offset && disks % near > 0);
            }
            Err(MapError::MemberTooSmall(_)) => prop_assert!(member < chunk * u64::from(far)),
            Err(_) => prop_assert!(near * far < 2 || near * far > disks),
        }
    }

    #[test]
    fn raid456_maps_are_consistent(
        level in prop::sample::select(&[Level::Raid4, Level::Raid5, Level::Raid6]),
        disks in 4u32..9,
        algorithm in prop::sample::select(&ALGORITHMS),
        chunk in chunks(),
        member in 300u64..900,
    ) {
        let map = Raid456Map::new(level, disks, algorithm, chunk, member).unwrap();
        check(&map, &vec![map.used; disks as usize])?;
        for stripe in 0..map.used / chunk {
            let ParitySlots { p, q } = map.parity_slots(stripe);
            let mut slots: Vec<u32> = (0..map.data()).map(|index| map.data_slot(stripe, index)).collect();
            for (index, &slot) in (0..).zip(&slots) {
                prop_assert_eq!(map.data_index(stripe, slot), Some(index));
                prop_assert_eq!(map.stripe_of(map.array_sector(MemberSector { slot, sector: stripe * chunk }).unwrap()), stripe);
            }
            slots.push(p);
            slots.extend(q);
            slots.sort_unstable();
            prop_assert!(slots.into_iter().eq(0..disks));
            prop_assert!(map.data_index(stripe, p).is_none());
        }
    }
}
