use super::*;
use crate::tests::{Random, Zipf, popularity_of};
use crate::zipf::HotShare;
use proptest::prelude::*;

const BLOCKS: usize = 2_000_000;
const ACCESSES: usize = 6_000_000;

/// Scatters ranks over the disk, so that hot blocks are not neighbours.
fn place(rank: u64) -> u64 {
    rank * 1_000_003 % 2_000_003
}

/// Largest error of a share, in points, over the curve down to 0.1 % of the blocks.
fn compare(name: &str, accesses: impl Iterator<Item = u64>) -> f64 {
    compare_ios(name, accesses.map(|block| (block, 1)))
}

/// The same for I/Os of several blocks.
fn compare_ios(name: &str, ios: impl Iterator<Item = (u64, u32)>) -> f64 {
    let mut hotness = Hotness::default();
    let mut counts = vec![0u64; 4_300_000];
    for (first, blocks) in ios {
        hotness.record(first, blocks, false);
        counts[first as usize..][..blocks as usize].iter_mut().for_each(|count| *count += 1);
    }
    let exact = popularity_of(counts.iter().copied());
    let summary = hotness.summary();
    let unique = summary.unique_blocks as f64 / exact.blocks - 1.0;
    assert!(summary.sampled, "{name}");
    assert!(unique.abs() < 4.0 * summary.relative_error, "{name} {unique}");
    let fractions = [0.001, 0.003, 0.01, 0.05, 0.1, 0.2, 0.5];
    let pairs = hotness.popularity_above(hotness.complete_from()).shares(&fractions);
    let error = |(found, truth): (&HotShare, &HotShare)| (found.io_share - truth.io_share).abs();
    let truth = exact.shares(&fractions);
    pairs.iter().zip(&truth).map(error).fold(0.0, f64::max) * 100.0
}

#[test]
fn zipf_shares_are_close() {
    for s in [0.8, 1.0, 1.2] {
        let (zipf, mut random) = (Zipf::new(BLOCKS, s), Random(7));
        let accesses = (0..ACCESSES).map(|_| place(zipf.draw(&mut random)));
        let error = compare(&format!("zipf {s}"), accesses);
        assert!(error < 1.0, "zipf {s}: {error}");
    }
}

#[test]
fn uniform_shares_are_close() {
    let mut random = Random(8);
    let accesses = (0..ACCESSES).map(|_| random.below(BLOCKS as u64));
    assert!(compare("uniform", accesses) < 1.0);
}

#[test]
fn a_hot_set_that_appears_late_is_found() {
    // A scan of everything, then a skewed load over it, then ten blocks that get a fifth of all I/O together with
    // another scan, far away.
    let (zipf, mut random) = (Zipf::new(BLOCKS, 1.1), Random(9));
    let accesses = (0..ACCESSES as u64).map(|n| match n / 2_000_000 {
        0 => n,
        1 => place(zipf.draw(&mut random)),
        _ if random.below(10) < 6 => 2_050_000 + random.below(10),
        _ => 2_100_000 + n % 2_000_000,
    });
    assert!(compare("mixed", accesses) < 1.0);
}

#[test]
fn a_two_level_load_is_close() {
    let mut random = Random(10);
    let accesses = (0..ACCESSES).map(|_| match random.below(10) {
        0 => 200_000 + random.below(1_800_000),
        _ => random.below(200_000),
    });
    assert!(compare("hot and cold", accesses) < 1.0);
}

#[test]
fn shares_of_large_ios_are_close() {
    let (zipf, mut random) = (Zipf::new(BLOCKS / 64, 0.9), Random(12));
    let ios = (0..400_000).map(|_| {
        let first = zipf.draw(&mut random) * 1_000_003 % (BLOCKS as u64 / 64) * 64 + random.below(2) * random.below(64);
        (first, [256, 64, 16, 1000][random.below(4) as usize])
    });
    let error = compare_ios("large I/Os", ios);
    assert!(error < 1.0, "{error}");
}

#[test]
fn hot_ranges_of_a_very_large_disk_are_found() {
    // A scan of 512 GiB in I/Os of 1 MiB, while ten ranges get half of the accesses.
    let mut hotness = Hotness::default();
    let ios = 1u64 << 19;
    for io in 0..ios {
        hotness.record(io << 8, 256, false);
        hotness.record((io % 10) << 30, 256, true);
    }
    let summary = hotness.summary();
    let exact = (ios + 10) << 8;
    assert!((summary.unique_blocks as f64 / exact as f64 - 1.0).abs() < 4.0 * summary.relative_error);
    let hottest = summary.hottest[0];
    assert!((hottest.io_share - 0.5).abs() < 0.02, "{hottest:?}");
    assert!(summary.top.iter().all(|hot| hot.writes > ios / 11 && hot.block % (1 << 30) < 256), "{:?}", summary.top);
}

#[test]
fn few_blocks_are_exact() {
    let mut hotness = Hotness::new(1024);
    for round in 0..10u64 {
        hotness.record(100, 1024, round == 0);
    }
    hotness.record(100, 1, false);
    let summary = hotness.summary();
    assert!(!summary.sampled);
    assert_eq!((summary.unique_blocks, summary.accesses), (1024, 10_241));
    assert_eq!(summary.unique_read_blocks, 1024);
    assert_eq!(summary.unique_written_blocks, 1024);
    let first = summary.top[0];
    assert_eq!((first.block, first.reads, first.writes), (100, 10, 1));
    assert_eq!(summary.top[1].block, 101);
    assert_eq!(Hotness::default().summary().accesses_per_block, None);
}

#[test]
fn merged_samples_agree_with_the_whole() {
    let (zipf, mut random) = (Zipf::new(300_000, 1.0), Random(11));
    let mut parts: Vec<Hotness> = (0..4).map(|_| Hotness::new(1 << 14)).collect();
    let mut counts = vec![0u64; 300_000];
    for n in 0..1_200_000 {
        let rank = zipf.draw(&mut random);
        parts[n / 300_000].record(rank, 1, n % 3 == 0);
        counts[rank as usize] += 1;
    }
    let (first, rest) = parts.split_at_mut(1);
    rest.iter().for_each(|part| first[0].merge(part));
    let truth = popularity_of(counts);
    let summary = first[0].summary();
    assert_eq!(summary.accesses, 1_200_000);
    for (found, truth) in summary.hottest.iter().zip(truth.shares(&[0.01, 0.05, 0.1, 0.2])) {
        assert!((found.io_share - truth.io_share).abs() < 0.02, "{found:?} {truth:?}");
    }
}

proptest! {
    #[test]
    fn an_io_counts_as_its_blocks_do(
        ios in prop::collection::vec((0u64..1500, 0u32..300, any::<bool>()), 0..40), capacity in 10u32..13,
    ) {
        let (mut whole, mut single) = (Hotness::new(1 << capacity), Hotness::new(1 << capacity));
        for &(first, blocks, write) in &ios {
            whole.record(first, blocks, write);
            (first..first + u64::from(blocks)).for_each(|block| single.record(block, 1, write));
        }
        let (whole, single) = (whole.summary(), single.summary());
        prop_assert_eq!(whole.sampled, single.sampled);
        if whole.sampled {
            prop_assert_eq!(whole.accesses, single.accesses);
            let difference = whole.unique_blocks.abs_diff(single.unique_blocks) as f64;
            prop_assert!(difference <= 6.0 * whole.relative_error * single.unique_blocks as f64);
        } else {
            prop_assert_eq!(whole, single);
        }
    }

    #[test]
    fn any_io_is_taken_and_small_merges_are_exact(
        ios in prop::collection::vec((any::<u64>(), 0u32..64, any::<u32>(), 0u32..32, any::<bool>()), 0..20),
        cut in 0usize..20,
    ) {
        let mut parts = [Hotness::new(0), Hotness::new(0)];
        let mut whole = Hotness::new(0);
        for (index, &(block, down, blocks, less, write)) in ios.iter().enumerate() {
            let (block, blocks) = (block >> down, blocks >> less);
            parts[usize::from(index >= cut)].record(block, blocks, write);
            whole.record(block, blocks, write);
        }
        let [mut merged, rest] = parts;
        merged.merge(&rest);
        let (merged, whole) = (merged.summary(), whole.summary());
        prop_assert_eq!(merged.accesses, whole.accesses);
        if !whole.sampled {
            prop_assert_eq!(merged, whole);
        }
    }
}
