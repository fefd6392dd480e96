//! Tests of the plans: against a real kernel, against textbook cases, and against calculated parity.

use super::*;
use blklab_md::Level;
use blklab_md::map::{ParityAlgorithm, Raid456Map};
use proptest::prelude::*;

impl Stripe {
    /// A healthy stripe without cached pages.
    pub fn new(disks: u32, parity: ParitySlots) -> Self {
        let rmw_level = RmwLevel::default();
        Self { disks, parity, missing: 0, rebuilding: 0, cached: 0, dirty: false, rmw_level }
    }
}

/// What Linux 6.1 read and wrote: see the file.
const KERNEL: &str = include_str!("../../../../tests/data/stripes.txt");

/// Slots of pages that a line of digits counts.
fn mask(digits: &str) -> u64 {
    (0..).zip(digits.bytes()).map(|(slot, digit)| u64::from(digit > b'0') << slot).sum()
}

#[test]
fn plans_match_those_of_linux() {
    let mut stripe = Stripe::new(0, ParitySlots { p: 0, q: None });
    let (mut map, mut header, mut seen, mut wrong) = (None, "", 0, Vec::new());
    for line in KERNEL.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("level") {
            header = line;
            let field =
                |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap();
            stripe.disks = field("disks").parse().unwrap();
            stripe.missing = match field("missing") {
                "none" => 0,
                slots => slots.split(',').map(|slot| 1 << slot.parse::<u32>().unwrap()).sum(),
            };
            stripe.dirty = field("resync") != "none";
            stripe.rmw_level = match field("rmw") {
                "0" => RmwLevel::Reconstruct,
                "1" => RmwLevel::Fewer,
                _ => RmwLevel::Modify,
            };
            let level = [Level::Raid4, Level::Raid5, Level::Raid6][field("level").parse::<usize>().unwrap() - 4];
            map = Some(Raid456Map::new(level, stripe.disks, ParityAlgorithm::LeftSymmetric, 8, 8 * 64).unwrap());
            continue;
        }
        let map = map.as_ref().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: usize| words[word].parse::<u64>().unwrap();
        stripe.parity = map.parity_slots(number(1));
        let slots: u64 = (number(2)..number(2) + number(3)).map(|i| 1 << map.data_slot(number(1), i as u32)).sum();
        let (read, write) = (mask(words[4]), mask(words[5]));
        let planned = match words[0] {
            "w" => stripe.plan_write(slots, 0).map(|plan| (plan.read, plan.write)),
            "m" => {
                let last = 1 << map.data_slot(number(1), (number(2) + number(3) - 1) as u32);
                stripe.plan_write(slots & !last, last).map(|plan| (plan.read, plan.write))
            }
            "s" => stripe.plan_write(0, slots).map(|plan| (plan.read, plan.write)),
            // Available pages are read around the cache, and lost pages through it.
            _ => stripe.plan_read(slots).map(|read| (read, 0)),
        };
        seen += 1;
        if planned != Some((read, write)) {
            let planned = planned.map(|(read, write)| format!("{read:b} {write:b}"));
            wrong.push(format!("{header}: {line}: {:?}, not {planned:?}", stripe.parity));
        }
    }
    assert!(wrong.is_empty(), "{} of {seen} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(seen > 2000);
}

/// A healthy RAID-5 with parity on the last member, or RAID-6 with both there.
fn parity_last(disks: u32, parities: u32) -> Stripe {
    let p = disks - parities;
    Stripe::new(disks, ParitySlots { p, q: (parities == 2).then_some(p + 1) })
}

#[test]
fn textbook_cases_are_planned_as_expected() {
    let plan = |read, write, method| Some(WritePlan { read, write, method });
    // Three members: the other data rather than old data and parity.
    assert_eq!(parity_last(3, 1).plan_write(0b001, 0), plan(0b010, 0b101, ParityMethod::Reconstruct));
    // Five: old data and parity.
    assert_eq!(parity_last(5, 1).plan_write(0b00001, 0), plan(0b10001, 0b10001, ParityMethod::Modify));
    // Four: both methods read the same; reconstruct-write, unless read-modify-write is preferred.
    assert_eq!(parity_last(4, 1).plan_write(0b0001, 0), plan(0b0110, 0b1001, ParityMethod::Reconstruct));
    let preferred = Stripe { rmw_level: RmwLevel::Modify, ..parity_last(4, 1) };
    assert_eq!(preferred.plan_write(0b0001, 0), plan(0b1001, 0b1001, ParityMethod::Modify));
    // A full stripe reads nothing.
    assert_eq!(parity_last(5, 1).plan_write(0b01111, 0), plan(0, 0b11111, ParityMethod::Full));
    // RAID-6 modifies both parities.
    assert_eq!(parity_last(9, 2).plan_write(1, 0), plan(0b1_1000_0001, 0b1_1000_0001, ParityMethod::Modify));
    // The old content of a partly written page is read first, and then counts for neither method.
    assert_eq!(parity_last(4, 1).plan_write(0, 0b0001), plan(0b1001, 0b1001, ParityMethod::Modify));
    // Cached pages are not read.
    let cached = Stripe { cached: 0b10001, ..parity_last(5, 1) };
    assert_eq!(cached.plan_write(0b00001, 0), plan(0, 0b10001, ParityMethod::Modify));
    // Parity that is not valid is reconstructed.
    let dirty = Stripe { dirty: true, ..parity_last(5, 1) };
    assert_eq!(dirty.plan_write(0b00001, 0), plan(0b01110, 0b10001, ParityMethod::Reconstruct));
}

#[test]
fn degraded_stripes_are_planned_as_expected() {
    let lost = |missing| Stripe { missing, ..parity_last(5, 1) };
    // A lost page is overwritten: it is written only into parity.
    let plan = lost(0b00001).plan_write(0b00001, 0).unwrap();
    assert_eq!((plan.read, plan.write, plan.method), (0b01110, 0b10000, ParityMethod::Reconstruct));
    // A lost page is not overwritten: it stays in parity.
    let plan = lost(0b00001).plan_write(0b00110, 0).unwrap();
    assert_eq!((plan.read, plan.write, plan.method), (0b10110, 0b10110, ParityMethod::Modify));
    // A rebuilding member is not read, but written.
    let rebuilding = Stripe { rebuilding: 0b00001, ..parity_last(5, 1) };
    assert_eq!(rebuilding.plan_write(0b00001, 0).unwrap().write, 0b10001);
    assert_eq!(lost(0b00001).plan_read(0b00001), Some(0b11110));
    assert_eq!(lost(0b00001).plan_read(0b00010), Some(0b00010));
    assert_eq!((lost(0b00011).plan_read(0b00001), lost(0b00011).plan_write(0b00100, 0)), (None, None));
}

/// Multiplication by 2 in RAID-6's field.
fn double(byte: u8) -> u8 {
    byte << 1 ^ if byte >= 0x80 { 0x1d } else { 0 }
}

/// Both parities of these data pages, of one byte each.
fn parities(data: &[u8]) -> (u8, u8) {
    data.iter().rev().fold((0, 0), |(p, q), byte| (p ^ byte, double(q) ^ byte))
}

prop_compose! {
    /// Any usable stripe, and the pages that are written.
    fn stripes()(
        disks in 4u32..12,
        six: bool,
        turn in 0u64..12,
        lost in prop::collection::vec((0u32..12, any::<bool>()), 0..3),
        cached: u64,
        empty: bool,
        dirty: bool,
        rmw_level in prop::sample::select(&[RmwLevel::Reconstruct, RmwLevel::Fewer, RmwLevel::Modify]),
        written: (u64, u64),
    ) -> (Stripe, Raid456Map, u64, u64, u64) {
        let map = Raid456Map::new(if six { Level::Raid6 } else { Level::Raid5 }, disks, ParityAlgorithm::LeftSymmetric, 8, 800).unwrap();
        let mut stripe = Stripe { dirty, rmw_level, ..Stripe::new(disks, map.parity_slots(turn)) };
        for (slot, rebuilding) in lost.into_iter().take(if six { 2 } else { 1 }) {
            *(if rebuilding { &mut stripe.rebuilding } else { &mut stripe.missing }) |= 1 << (slot % disks);
        }
        stripe.rebuilding &= !stripe.missing;
        stripe.cached = if empty { 0 } else { cached & stripe.all_slots() & !stripe.lost_slots() };
        let data = stripe.all_slots() & !stripe.parity_slots();
        (stripe, map, turn, written.0 & data, written.1 & data & !written.0)
    }
}

proptest! {
    /// New parity, calculated only from pages that were read, is the parity of the new data.
    #[test]
    fn calculated_parity_matches_the_new_data(
        (stripe, map, turn, whole, part) in stripes(),
        old: [u8; 12],
        new: [u8; 12],
    ) {
        if whole | part == 0 {
            return Ok(());
        }
        let WritePlan { read, write, method } = stripe.plan_write(whole, part).unwrap();
        let (lost, all) = (stripe.lost_slots(), stripe.all_slots());
        prop_assert_eq!(read & (lost | stripe.cached), 0);
        prop_assert_eq!(write, (whole | part | stripe.parity_slots()) & !stripe.missing);
        let mut have = read | stripe.cached;
        if have | lost == all {
            have = all;
        }
        prop_assert_eq!(part & !have, 0, "a partly written page needs its old content");
        let bit = |index: u32| 1 << map.data_slot(turn, index);
        let data = 0..map.data();
        let value = |index: u32| {
            let merged = whole & bit(index) != 0 || part & bit(index) != 0;
            if merged { new[index as usize] } else { old[index as usize] }
        };
        let before = parities(&old[..map.data() as usize]);
        let after = parities(&data.clone().map(value).collect::<Vec<_>>());
        let made = match method {
            ParityMethod::Modify => {
                prop_assert_eq!((whole | part | stripe.parity_slots()) & !have, 0);
                let change = |index| value(index) ^ old[index as usize];
                let (p, q) = parities(&data.map(change).collect::<Vec<_>>());
                (before.0 ^ p, before.1 ^ q)
            }
            _ => {
                prop_assert_eq!(all & !stripe.parity_slots() & !whole & !have, 0);
                prop_assert!(method == ParityMethod::Reconstruct || read == 0);
                parities(&data.map(value).collect::<Vec<_>>())
            }
        };
        prop_assert_eq!(made, after);
        if stripe.rmw_level == RmwLevel::Reconstruct || stripe.dirty && lost == 0 {
            prop_assert!(method != ParityMethod::Modify);
        }
    }

    /// Planned reads use only readable members, and are sufficient.
    #[test]
    fn planned_reads_are_possible_and_sufficient((stripe, _, _, wanted, _) in stripes()) {
        let read = stripe.plan_read(wanted).unwrap();
        prop_assert_eq!(read & (stripe.lost_slots() | stripe.cached), 0);
        let have = read | stripe.cached;
        prop_assert!(wanted & !have == 0 || have | stripe.lost_slots() == stripe.all_slots());
    }
}

#[test]
fn parity_takes_twice_the_time_that_the_boot_lines_say() {
    let host = Host { syndrome_rate: 30_000 << 20, xor_rate: 20_000 << 20, ..Host::default() };
    // 8 · 4096 / (30,000 · 2^20) is 1.04 µs in a cache.
    assert_eq!(parity_time(&host, 2, ParityMethod::Full, 8), 2083);
    // The old page out, the new one in; RAID-6's delta at half the speed.
    assert_eq!(parity_time(&host, 1, ParityMethod::Modify, 1), 781);
    assert_eq!(parity_time(&host, 2, ParityMethod::Modify, 1), 1041);
}
