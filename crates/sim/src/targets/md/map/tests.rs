//! The maps against a real kernel's arrays, against what they promise, and against layouts dealt out by hand.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

/// Where an md of Linux 6.1 put every chunk of small arrays: see the file.
const KERNEL: &str = include_str!("../../../../tests/data/mapping.txt");

/// Any level, in what they have in common.
trait Map {
    fn capacity(&self) -> u64;
    fn places(&self, sector: u64) -> Vec<Place>;
    fn find(&self, place: Place) -> Option<(u64, usize)>;
    fn boundary(&self, sector: u64) -> u64;
}

macro_rules! single {
    ($type:ty) => {
        impl Map for $type {
            fn capacity(&self) -> u64 {
                self.capacity()
            }
            fn places(&self, sector: u64) -> Vec<Place> {
                vec![self.place(sector)]
            }
            fn find(&self, place: Place) -> Option<(u64, usize)> {
                Some((self.find(place)?, 0))
            }
            fn boundary(&self, sector: u64) -> u64 {
                self.boundary(sector)
            }
        }
    };
}
single!(Linear);
single!(Raid0);
single!(Raid456);

impl Map for Raid10 {
    fn capacity(&self) -> u64 {
        self.capacity()
    }
    fn places(&self, sector: u64) -> Vec<Place> {
        let mut places = vec![Place { slot: 0, sector: 0 }; self.copies() as usize];
        self.places(sector, &mut places);
        places
    }
    fn find(&self, place: Place) -> Option<(u64, usize)> {
        let (sector, copy) = self.find(place)?;
        Some((sector, copy as usize))
    }
    fn boundary(&self, sector: u64) -> u64 {
        self.boundary(sector)
    }
}

/// Every page has its own places, within the members, on different ones, and is found there.
fn check(map: &dyn Map, members: &[u64]) -> Result<(), TestCaseError> {
    let mut taken = HashSet::new();
    let mut before: Option<(u64, Vec<Place>)> = None;
    // A sector in the middle of each page, and the last one of the array.
    for sector in (0..map.capacity()).step_by(8).map(|sector| sector + 3).chain([map.capacity() - 1]) {
        if sector >= map.capacity() || before.as_ref().is_some_and(|before| before.0 == sector) {
            continue;
        }
        let places = map.places(sector);
        let slots: HashSet<u32> = places.iter().map(|place| place.slot).collect();
        prop_assert_eq!(slots.len(), places.len(), "two copies of {} on a member", sector);
        for (copy, &place) in places.iter().enumerate() {
            prop_assert!(place.sector < members[place.slot as usize], "{} beyond its member", sector);
            prop_assert!(taken.insert(place), "{:?} taken twice", place);
            prop_assert_eq!(map.find(place), Some((sector, copy)));
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
    let copies = map.places(0).len() as u64;
    prop_assert!(map.capacity() * copies <= members.iter().sum());
    // Whatever else is on the members, nothing is found there twice or beyond the end.
    for (slot, &sectors) in (0..).zip(members) {
        for sector in (0..sectors + 64).step_by(5) {
            let place = Place { slot, sector };
            if let Some((found, copy)) = map.find(place) {
                prop_assert!(found < map.capacity());
                prop_assert_eq!(map.places(found)[copy], place);
            }
        }
    }
    prop_assert_eq!(map.find(Place { slot: members.len() as u32, sector: 0 }), None);
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

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::LeftAsymmetric,
    Algorithm::RightAsymmetric,
    Algorithm::LeftSymmetric,
    Algorithm::RightSymmetric,
    Algorithm::ParityFirst,
    Algorithm::ParityLast,
];

/// An array of the kernel's, by its header line.
struct Array {
    map: Result<Box<dyn Map>, MapError>,
    /// The same, if it has parity.
    parity: Option<Raid456>,
    members: Vec<u64>,
    chunk: u64,
}

impl Array {
    fn new(header: &str) -> Self {
        let number = |name| field(header, name).parse::<u64>().unwrap();
        let (chunk, component) = (number("chunk") / 512, number("component") * 2);
        let layout = u32::from_str_radix(&field(header, "layout")[2..], 16).unwrap();
        let members: Vec<u64> =
            field(header, "members").split(',').map(|kib| kib.parse::<u64>().unwrap() * 2).collect();
        let disks = members.len() as u32;
        let mut parity = None;
        let map: Result<Box<dyn Map>, _> = match header.split(' ').next().unwrap() {
            "linear" => Ok(Box::new(Linear::new(&members, chunk).unwrap())),
            "raid0" => {
                let layout = if layout == 2 { ZoneLayout::Alternate } else { ZoneLayout::Original };
                Ok(Box::new(Raid0::new(&members, chunk, layout).unwrap()))
            }
            "raid10" => {
                let (near, far, offset) = (layout & 255, layout >> 8 & 255, layout >> 16 & 1 == 1);
                let sets = [FarSets::Whole, FarSets::Divided, FarSets::Copies][(layout >> 17) as usize];
                match Raid10::new(disks, near, far, offset, sets, chunk, component) {
                    Ok(map) => Ok(Box::new(map)),
                    Err(error) => Err(error),
                }
            }
            level => {
                let level = level.strip_prefix("raid").unwrap().parse().unwrap();
                let map = Raid456::new(level, disks, ALGORITHMS[layout as usize], chunk, component).unwrap();
                parity = Some(map.clone());
                Ok(Box::new(map))
            }
        };
        Self { map, parity, members, chunk }
    }
}

/// What a header line of the kernel's arrays says under a name.
fn field<'a>(header: &'a str, name: &str) -> &'a str {
    header.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap()
}

#[test]
fn as_the_kernel_has_it() {
    let (mut arrays, mut refused) = (0, 0);
    let mut lines = KERNEL.lines().filter(|line| !line.starts_with('#'));
    while let Some(header) = lines.next() {
        let Array { map, parity, members, chunk } = Array::new(header);
        let cells: Vec<&str> = lines.by_ref().take(members.len()).collect();
        let size: u64 = field(header, "size").parse().unwrap();
        arrays += 1;
        let Ok(map) = map else {
            // The kernel takes it, but has some chunk on one member only.
            let mut found: Vec<Vec<u64>> = cells
                .iter()
                .map(|line| line.split(' ').filter_map(|cell| cell.parse().ok()).collect())
                .collect();
            found.iter_mut().for_each(|chunks| chunks.dedup());
            let once = |chunk| found.iter().filter(|chunks| chunks.contains(&chunk)).count() < 2;
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
                        map.places((first + page) * 8),
                        [Place { slot, sector: page * 8 }],
                        "{header}"
                    );
                }
                seen += count * 8;
                continue;
            }
            for (row, cell) in (0..).zip(line.split(' ')) {
                let place = Place { slot, sector: row * chunk };
                if let Ok(array) = cell.parse::<u64>() {
                    assert!(map.places(array * chunk).contains(&place), "{header}: {array} at {place:?}");
                    assert_eq!(map.find(place).unwrap().0, array * chunk, "{header}");
                    seen += chunk;
                    continue;
                }
                assert_eq!(map.find(place), None, "{header}: {place:?}");
                let parity = parity.as_ref().map(|map| map.parity(row));
                match cell {
                    "P" => assert_eq!(parity.unwrap().p, slot, "{header} row {row}"),
                    "Q" => assert_eq!(parity.unwrap().q, Some(slot), "{header} row {row}"),
                    _ => assert_eq!(cell, "-"),
                }
            }
        }
        // All of it was seen, each copy.
        let whole = if chunk > 0 { size.next_multiple_of(chunk) } else { size };
        assert_eq!(seen, whole * map.places(0).len() as u64, "{header}");
        check(map.as_ref(), &members).unwrap();
    }
    assert!(arrays > 100 && refused < 10, "{arrays} arrays, {refused} refused");
}

#[test]
fn dealt_out_near() {
    for (disks, near) in [(2, 2), (3, 2), (4, 2), (5, 2), (5, 3), (7, 3)] {
        let map = Raid10::new(disks, near, 1, false, FarSets::Whole, 8, 80).unwrap();
        for (row, cells) in (0..).zip(near_rows(disks as usize, near as usize, 10)) {
            for (slot, chunk) in (0..).zip(cells).filter(|(_, chunk)| chunk * 8 < map.capacity()) {
                assert_eq!(map.find(Place { slot, sector: row * 8 }).map(|found| found.0), Some(chunk * 8));
            }
        }
    }
}

#[test]
fn dealt_out_far_and_offset() {
    for (disks, far) in [(2, 2), (3, 2), (4, 2), (5, 2), (5, 3), (7, 4)] {
        for offset in [false, true] {
            let map = Raid10::new(disks, 1, far, offset, FarSets::Whole, 8, 6 * 8 * u64::from(far)).unwrap();
            for (row, cells) in (0..).zip(near_rows(disks as usize, 1, 6)) {
                for copy in 0..u64::from(far) {
                    let sector = if offset { row * u64::from(far) + copy } else { copy * 6 + row } * 8;
                    for (slot, chunk) in (0..).zip(turned(&cells, copy as usize)) {
                        assert_eq!(map.find(Place { slot, sector }), Some((chunk * 8, copy as u32)));
                    }
                }
            }
        }
    }
}

#[test]
fn two_mirrored_members_are_not_split() {
    let near = Raid10::new(2, 2, 1, false, FarSets::Whole, 128, 1 << 20).unwrap();
    assert_eq!(near.boundary(5), u64::MAX);
    let far = Raid10::new(2, 1, 2, false, FarSets::Whole, 128, 1 << 20).unwrap();
    assert_eq!(far.boundary(5), 123);
}

#[test]
fn what_cannot_be_is_refused() {
    let raid10 = |disks, near, far, offset, sets, chunk, member| {
        Raid10::new(disks, near, far, offset, sets, chunk, member).unwrap_err().to_string()
    };
    let whole = FarSets::Whole;
    assert_eq!(raid10(2, 3, 1, false, whole, 128, 1024), "3 copies need as many members, 2 given");
    assert_eq!(
        raid10(2, 1, 1, false, whole, 128, 1024),
        "RAID-10 needs at least two copies, and near and far copies of at least one each"
    );
    assert_eq!(raid10(2, 2, 1, false, whole, 0, 1024), "the chunk of 0 sectors is no multiple of 4 KiB");
    assert_eq!(raid10(2, 2, 1, false, whole, 24, 1024), "the chunk of 24 sectors is no power of two");
    assert_eq!(raid10(2, 1, 2, false, whole, 128, 255), "a member of 255 sectors is too small");
    assert_eq!(raid10(5, 2, 2, true, whole, 128, 1024), "copies would overlap in this layout on 5 members");
    assert_eq!(
        raid10(3, 1, 2, false, FarSets::Divided, 128, 1024),
        "copies would overlap in this layout on 3 members"
    );
    assert_eq!(raid10(4, 1, 2, false, whole, 8, u64::MAX), "the array is larger than 2^64 sectors");
    let raid6 = Raid456::new(6, 3, Algorithm::LeftSymmetric, 128, 1024).unwrap_err();
    assert_eq!(raid6.to_string(), "4 members are needed, 3 given");
    assert!(Raid0::new(&[], 8, ZoneLayout::Original).is_err());
    assert!(Raid0::new(&[80, 4], 8, ZoneLayout::Original).is_err());
    assert!(Linear::new(&[], 0).is_err() && Linear::new(&[8, 7], 8).is_err());
}

/// Chunks of 4 to 32 KiB.
fn chunks() -> impl Strategy<Value = u64> {
    (0u32..4).prop_map(|power| 8 << power)
}

proptest! {
    #[test]
    fn linear(members in prop::collection::vec(1u64..400, 1..6), rounding in 0u64..20) {
        if let Ok(map) = Linear::new(&members, rounding) {
            check(&map, &members)?;
        }
    }

    #[test]
    fn raid0(members in prop::collection::vec(80u64..800, 1..6), pages in 1u64..10, original: bool) {
        let layout = if original { ZoneLayout::Original } else { ZoneLayout::Alternate };
        let map = Raid0::new(&members, pages * 8, layout).unwrap();
        check(&map, &members)?;
        if (pages * 8).is_power_of_two() {
            let used: u64 = members.iter().map(|sectors| sectors - sectors % (pages * 8)).sum();
            prop_assert_eq!(map.capacity(), used);
        }
    }

    #[test]
    fn raid10(
        (disks, near, far) in (2u32..10).prop_flat_map(|disks| (Just(disks), 1..=disks, 1..=disks)),
        offset: bool,
        sets in prop::sample::select(&[FarSets::Whole, FarSets::Divided, FarSets::Copies]),
        chunk in chunks(),
        member in 300u64..900,
    ) {
        match Raid10::new(disks, near, far, offset, sets, chunk, member) {
            Ok(map) => check(&map, &vec![map.used(); disks as usize])?,
            Err(MapError::Overlap { .. }) => {
                prop_assert!(sets != FarSets::Whole || offset && disks % near > 0);
            }
            Err(MapError::MemberTooSmall { .. }) => prop_assert!(member < chunk * u64::from(far)),
            Err(_) => prop_assert!(near * far < 2 || near * far > disks),
        }
    }

    #[test]
    fn raid456(
        level in 4u32..7,
        disks in 4u32..9,
        algorithm in prop::sample::select(&ALGORITHMS),
        chunk in chunks(),
        member in 300u64..900,
    ) {
        let map = Raid456::new(level, disks, algorithm, chunk, member).unwrap();
        check(&map, &vec![map.used(); disks as usize])?;
        for stripe in 0..map.used() / chunk {
            let Parity { p, q } = map.parity(stripe);
            let mut slots: Vec<u32> = (0..map.data()).map(|index| map.slot(stripe, index)).collect();
            for (index, &slot) in (0..).zip(&slots) {
                prop_assert_eq!(map.index(stripe, slot), Some(index));
                prop_assert_eq!(map.stripe(map.find(Place { slot, sector: stripe * chunk }).unwrap()), stripe);
            }
            slots.push(p);
            slots.extend(q);
            slots.sort_unstable();
            prop_assert!(slots.into_iter().eq(0..disks));
            prop_assert!(map.index(stripe, p).is_none());
        }
    }
}
