//! The plans against what a real kernel did, the textbook's cases, and parity really calculated.

use super::*;
use crate::targets::md::map::{Algorithm, Raid456};
use proptest::prelude::*;

/// What Linux 6.1 read and wrote: see the file.
const KERNEL: &str = include_str!("../../../../tests/data/stripes.txt");

/// Slots of pages that a line of digits counts.
fn mask(digits: &str) -> u64 {
    (0..).zip(digits.bytes()).map(|(slot, digit)| u64::from(digit > b'0') << slot).sum()
}

#[test]
fn as_the_kernel_does() {
    let mut stripe = Stripe::new(0, Parity { p: 0, q: None });
    let (mut map, mut header, mut seen, mut wrong) = (None, "", 0, Vec::new());
    for line in KERNEL.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("level") {
            header = line;
            let field = |name: &str| {
                line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap()
            };
            stripe.disks = field("disks").parse().unwrap();
            stripe.missing = match field("missing") {
                "none" => 0,
                slots => slots.split(',').map(|slot| 1 << slot.parse::<u32>().unwrap()).sum(),
            };
            stripe.dirty = field("resync") != "none";
            stripe.preference = match field("rmw") {
                "0" => Preference::Reconstruct,
                "1" => Preference::Fewer,
                _ => Preference::Modify,
            };
            let level = field("level").parse().unwrap();
            map = Some(Raid456::new(level, stripe.disks, Algorithm::LeftSymmetric, 8, 8 * 64).unwrap());
            continue;
        }
        let map = map.as_ref().unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: usize| words[word].parse::<u64>().unwrap();
        stripe.parity = map.parity(number(1));
        let slots: u64 = (number(2)..number(2) + number(3)).map(|i| 1 << map.slot(number(1), i as u32)).sum();
        let (read, write) = (mask(words[4]), mask(words[5]));
        let planned = match words[0] {
            "w" => stripe.write(slots, 0).map(|plan| (plan.read, plan.write)),
            "m" => {
                let last = 1 << map.slot(number(1), (number(2) + number(3) - 1) as u32);
                stripe.write(slots & !last, last).map(|plan| (plan.read, plan.write))
            }
            "s" => stripe.write(0, slots).map(|plan| (plan.read, plan.write)),
            // What is there is read around the cache, and lost pages through it.
            _ => stripe.read(slots).map(|read| (read, 0)),
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
fn last(disks: u32, parities: u32) -> Stripe {
    let p = disks - parities;
    Stripe::new(disks, Parity { p, q: (parities == 2).then_some(p + 1) })
}

#[test]
fn textbook() {
    let plan = |read, write, method| Some(Plan { read, write, method });
    // Three members: the other data rather than old data and parity.
    assert_eq!(last(3, 1).write(0b001, 0), plan(0b010, 0b101, Method::Reconstruct));
    // Five: old data and parity.
    assert_eq!(last(5, 1).write(0b00001, 0), plan(0b10001, 0b10001, Method::Modify));
    // Four: as much either way, unless the other is preferred.
    assert_eq!(last(4, 1).write(0b0001, 0), plan(0b0110, 0b1001, Method::Reconstruct));
    let preferred = Stripe { preference: Preference::Modify, ..last(4, 1) };
    assert_eq!(preferred.write(0b0001, 0), plan(0b1001, 0b1001, Method::Modify));
    // A full stripe reads nothing.
    assert_eq!(last(5, 1).write(0b01111, 0), plan(0, 0b11111, Method::Full));
    // RAID-6 modifies both parities.
    assert_eq!(last(9, 2).write(1, 0), plan(0b1_1000_0001, 0b1_1000_0001, Method::Modify));
    // Of a page partly written the old one is had first, and counts for neither way then.
    assert_eq!(last(4, 1).write(0, 0b0001), plan(0b1001, 0b1001, Method::Modify));
    // What is cached need not be read.
    let cached = Stripe { cached: 0b10001, ..last(5, 1) };
    assert_eq!(cached.write(0b00001, 0), plan(0, 0b10001, Method::Modify));
    // Parity that cannot be trusted is made anew.
    let dirty = Stripe { dirty: true, ..last(5, 1) };
    assert_eq!(dirty.write(0b00001, 0), plan(0b01110, 0b10001, Method::Reconstruct));
}

#[test]
fn degraded() {
    let lost = |missing| Stripe { missing, ..last(5, 1) };
    // What is lost is overwritten: it goes into parity alone.
    let plan = lost(0b00001).write(0b00001, 0).unwrap();
    assert_eq!((plan.read, plan.write, plan.method), (0b01110, 0b10000, Method::Reconstruct));
    // It is not: it stays in parity.
    let plan = lost(0b00001).write(0b00110, 0).unwrap();
    assert_eq!((plan.read, plan.write, plan.method), (0b10110, 0b10110, Method::Modify));
    // A rebuilding member is not read, but written.
    let rebuilding = Stripe { rebuilding: 0b00001, ..last(5, 1) };
    assert_eq!(rebuilding.write(0b00001, 0).unwrap().write, 0b10001);
    assert_eq!(lost(0b00001).read(0b00001), Some(0b11110));
    assert_eq!(lost(0b00001).read(0b00010), Some(0b00010));
    assert_eq!((lost(0b00011).read(0b00001), lost(0b00011).write(0b00100, 0)), (None, None));
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
    /// Any stripe that can be used, and what is written to it.
    fn stripes()(
        disks in 4u32..12,
        six: bool,
        turn in 0u64..12,
        lost in prop::collection::vec((0u32..12, any::<bool>()), 0..3),
        cached: u64,
        empty: bool,
        dirty: bool,
        preference in prop::sample::select(&[Preference::Reconstruct, Preference::Fewer, Preference::Modify]),
        written: (u64, u64),
    ) -> (Stripe, Raid456, u64, u64, u64) {
        let map = Raid456::new(if six { 6 } else { 5 }, disks, Algorithm::LeftSymmetric, 8, 800).unwrap();
        let mut stripe = Stripe { dirty, preference, ..Stripe::new(disks, map.parity(turn)) };
        for (slot, rebuilding) in lost.into_iter().take(if six { 2 } else { 1 }) {
            *(if rebuilding { &mut stripe.rebuilding } else { &mut stripe.missing }) |= 1 << (slot % disks);
        }
        stripe.rebuilding &= !stripe.missing;
        stripe.cached = if empty { 0 } else { cached & stripe.all() & !stripe.lost() };
        let data = stripe.all() & !stripe.parities();
        (stripe, map, turn, written.0 & data, written.1 & data & !written.0)
    }
}

proptest! {
    /// New parity calculated from nothing but what was read is the parity of the new data.
    #[test]
    fn parity_comes_out(
        (stripe, map, turn, whole, part) in stripes(),
        old: [u8; 12],
        new: [u8; 12],
    ) {
        if whole | part == 0 {
            return Ok(());
        }
        let Plan { read, write, method } = stripe.write(whole, part).unwrap();
        let (lost, all) = (stripe.lost(), stripe.all());
        prop_assert_eq!(read & (lost | stripe.cached), 0);
        prop_assert_eq!(write, (whole | part | stripe.parities()) & !stripe.missing);
        let mut have = read | stripe.cached;
        if have | lost == all {
            have = all;
        }
        prop_assert_eq!(part & !have, 0, "a part without the rest of the page");
        let bit = |index: u32| 1 << map.slot(turn, index);
        let data = 0..map.data();
        let value = |index: u32| {
            let merged = whole & bit(index) != 0 || part & bit(index) != 0;
            if merged { new[index as usize] } else { old[index as usize] }
        };
        let before = parities(&old[..map.data() as usize]);
        let after = parities(&data.clone().map(value).collect::<Vec<_>>());
        let made = match method {
            Method::Modify => {
                prop_assert_eq!((whole | part | stripe.parities()) & !have, 0);
                let change = |index| value(index) ^ old[index as usize];
                let (p, q) = parities(&data.map(change).collect::<Vec<_>>());
                (before.0 ^ p, before.1 ^ q)
            }
            _ => {
                prop_assert_eq!(all & !stripe.parities() & !whole & !have, 0);
                prop_assert!(method == Method::Reconstruct || read == 0);
                parities(&data.map(value).collect::<Vec<_>>())
            }
        };
        prop_assert_eq!(made, after);
        if stripe.preference == Preference::Reconstruct || stripe.dirty && lost == 0 {
            prop_assert!(method != Method::Modify);
        }
    }

    /// Whatever is read is there to be read, and enough.
    #[test]
    fn reads_suffice((stripe, _, _, wanted, _) in stripes()) {
        let read = stripe.read(wanted).unwrap();
        prop_assert_eq!(read & (stripe.lost() | stripe.cached), 0);
        let have = read | stripe.cached;
        prop_assert!(wanted & !have == 0 || have | stripe.lost() == stripe.all());
    }
}
