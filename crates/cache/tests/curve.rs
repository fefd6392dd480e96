//! Stack distances against a list, OPT against every choice, samples against the whole trace.

use blklab_cache::curve::{CacheCurves, CurvePoint, CurveSettings, DistanceSample, FirstPass, StackDistances};
use blklab_cache::curve::{next_accesses, opt_hits};
use blklab_cache::{Op, Request};
use blklab_stats::hash64;
use proptest::prelude::*;

fn lru_hits(trace: &[(u64, bool)], size: usize, write: bool) -> usize {
    let (mut list, mut hits) = (Vec::new(), 0);
    for &(block, is_write) in trace {
        let position = list.iter().position(|&other| other == block);
        hits += usize::from(is_write == write && position.is_some_and(|at| list.len() - at <= size));
        position.map(|at| list.remove(at));
        list.push(block);
    }
    hits
}

/// The most hits that any choice of victims, or of none, can have.
fn best_hits(trace: &[u64], cached: &[u64], size: usize) -> usize {
    let Some((&block, rest)) = trace.split_first() else { return 0 };
    if cached.contains(&block) {
        return 1 + best_hits(rest, cached, size);
    }
    let with = |kept: Vec<u64>| best_hits(rest, &[kept, vec![block]].concat(), size);
    let without = best_hits(rest, cached, size);
    if cached.len() < size {
        return without.max(with(cached.to_vec()));
    }
    let victims = (0..cached.len()).map(|out| [&cached[..out], &cached[out + 1..]].concat());
    victims.map(with).fold(without, usize::max)
}

proptest! {
    #[test]
    fn distances_are_those_of_a_list(trace in prop::collection::vec((0..60u64, any::<bool>()), 1..400), size in 0..70u64) {
        let mut lru = StackDistances::new(1.0, 1);
        lru.access(&trace);
        for write in [false, true] {
            let all = trace.iter().filter(|access| access.1 == write).count().max(1);
            let expected = lru_hits(&trace, size as usize, write) as f64 / all as f64;
            prop_assert!((lru.samples[0].hit_ratio(&[write], Some(size)) - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn no_choice_of_victims_beats_opt(trace in prop::collection::vec(0..5u64, 1..9), size in 1..4usize) {
        let hits = opt_hits(None, &next_accesses(&trace), size as u64, true);
        prop_assert_eq!(hits.iter().filter(|hit| **hit).count(), best_hits(&trace, &[], size));
    }
}

/// A skewed block in 0..blocks: half of the accesses go to a thirty-second of them.
fn skewed(index: u64, blocks: u64) -> u64 {
    let (draw, place) = (hash64(index), hash64(index ^ 1 << 40));
    let below = match draw % 4 {
        0 | 1 => blocks / 32,
        2 => blocks / 4,
        _ => blocks,
    };
    hash64(place % below) % (1 << 40)
}

#[test]
fn compaction_keeps_the_order_and_samples_are_close_to_the_whole() {
    let [whole, sampled] = [1.0, 0.05].map(|rate| {
        let mut lru = StackDistances::new(rate, 4);
        let accesses: Vec<_> = (0..600_000).map(|index| (skewed(index, 100_000), false)).collect();
        accesses.chunks(8192).for_each(|together| lru.access(together));
        lru
    });
    assert!(sampled.memory_bytes() * 2 < whole.memory_bytes());
    let whole = &whole.samples[0];
    let mean = |of: &dyn Fn(&DistanceSample) -> f64| sampled.samples.iter().map(of).sum::<f64>() / 4.0;
    assert!(whole.distinct() > 60_000, "{} blocks", whole.distinct());
    for size in [3_125, 10_000, 25_000, 60_000] {
        let exact = whole.hit_ratio(&[false], Some(size));
        let error = (mean(&|sample| sample.hit_ratio(&[false], Some(size))) - exact).abs();
        assert!(error < 0.01, "{size}: {error}");
    }
    assert!((mean(&|sample| sample.distinct() as f64) / whole.distinct() as f64 - 1.0).abs() < 0.05);
}

fn settings(policies: &[&str]) -> CurveSettings {
    CurveSettings {
        policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        blocks: vec![65_536],
        sizes: vec![],
        kernel: "6.1".to_owned(),
        writeback: false,
        sample: None,
        samples: 4,
        volume: Some(1 << 40),
    }
}

fn curves(settings: CurveSettings, requests: &[Request], has_times: bool) -> CacheCurves {
    let mut first = FirstPass::new(settings).unwrap();
    requests.iter().for_each(|request| first.request(request));
    assert!(first.needs_second_pass());
    let mut second = first.finish(has_times, None).unwrap();
    requests.iter().for_each(|request| second.request(request));
    second.finish()
}

fn requests(count: u64, blocks: u64, gap_ns: u64) -> Vec<Request> {
    let sector = |index: u64| skewed(index, blocks) % (blocks * 4) * 128;
    let at = |index: u64| Request { time_ns: index * gap_ns, op: Op::Read, sector: sector(index), sectors: 8, task: 1 };
    (0..count).map(at).collect()
}

#[test]
fn a_curve_rises_and_stays_below_opt_and_the_first_touches() {
    let document = curves(settings(&["smq", "bcache", "lru", "opt"]), &requests(60_000, 6_000, 1_000_000), true);
    let block = &document.blocks[0];
    let of = |name: &str| block.curves.iter().find(|curve| curve.policy == name).unwrap();
    let (lru, opt) = (of("lru"), of("opt"));
    for (lru, opt) in lru.points.iter().zip(&opt.points) {
        assert!(lru.hit_ratio <= opt.hit_ratio + 1e-9);
        assert!(opt.hit_ratio <= 1.0 - block.first_touch_ratio + 1e-9);
        assert_eq!((lru.low, lru.high), (lru.hit_ratio, lru.hit_ratio), "exact");
    }
    assert!(lru.points.windows(2).all(|pair| pair[0].hit_ratio <= pair[1].hit_ratio + 1e-9));
    for (smq, opt) in of("smq").points.iter().zip(&opt.points) {
        assert!(smq.hit_ratio <= opt.hit_ratio + 1e-9, "smq at {} bytes", smq.cache_bytes);
    }
    assert!(of("smq").points.last().unwrap().hit_ratio > 0.5);
    // The phase of smq's clock changes what it promotes; bcache has no such clock, and is simulated in full.
    assert!(of("smq").points.iter().all(|point| point.low < point.hit_ratio && point.hit_ratio < point.high));
    assert!(of("bcache").points.iter().all(|point| (point.low, point.high) == (point.hit_ratio, point.hit_ratio)));
    assert!(of("bcache").points.iter().all(|point| point.cache_bytes > 256 << 20));
    assert_eq!(of("bcache").points.len(), 1, "512 MiB: the kernel refuses 512 buckets of 512 KiB");
}

#[test]
fn bcache_needs_513_buckets() {
    for (buckets, accepted) in [(512, false), (513, true)] {
        let wanted = CurveSettings { sizes: vec![buckets << 19], ..settings(&["bcache"]) };
        assert_eq!(FirstPass::new(wanted).is_ok(), accepted, "{buckets}");
    }
}

#[test]
fn the_interval_of_smq_holds_what_one_more_phase_finds() {
    let trace = requests(60_000, 4_000, 1_000_000);
    let points = |samples| {
        curves(CurveSettings { samples, ..settings(&["smq"]) }, &trace, true).blocks[0].curves[0].points.clone()
    };
    let (one, four, eight) = (points(1), points(4), points(8));
    for ((one, four), eight) in one.iter().zip(&four).zip(&eight) {
        assert_eq!((one.low, one.high), (one.hit_ratio, one.hit_ratio), "one phase has no interval");
        // From the means of four and of eight, the mean of the other four.
        let others = 2.0 * eight.hit_ratio - four.hit_ratio;
        assert!((four.low..=four.high).contains(&others), "{others} {four:?}");
    }
}

#[test]
fn without_times_smq_is_a_band() {
    let document = curves(settings(&["smq"]), &requests(20_000, 4_000, 0), false);
    assert_eq!((document.span_ns, document.assumed_rates.len()), (None, 2));
    let points = &document.blocks[0].curves[0].points;
    assert!(points.iter().any(|point| point.low < point.high));
    assert!(points.iter().all(|point| point.low <= point.hit_ratio && point.hit_ratio <= point.high));
}

#[test]
fn coarse_times_are_spread_and_useless_ones_are_a_band() {
    // 1,000 I/Os a second, in an uneven order within it.
    let exact: Vec<Request> = requests(60_000, 4_000, 0)
        .into_iter()
        .zip(0u64..)
        .map(|(request, at)| Request { time_ns: at * 1_000_000 + hash64(at) % 900_000, ..request })
        .collect();
    let of = |time: fn(u64) -> u64| {
        let trace: Vec<Request> =
            exact.iter().map(|request| Request { time_ns: time(request.time_ns), ..*request }).collect();
        curves(CurveSettings { sizes: vec![64 << 20], ..settings(&["smq"]) }, &trace, true)
    };
    let point = |document: &CacheCurves| document.blocks[0].curves[0].points[0].clone();
    let fine = of(|ns| ns);
    assert_eq!((fine.spread_ns, &fine.useless_times), (None, &None));
    for (rounded, unit) in
        [(of(|ns| ns / 1_000_000_000 * 1_000_000_000), 1_000_000_000), (of(|ns| ns / 5_000_000 * 5_000_000), 5_000_000)]
    {
        assert_eq!(rounded.spread_ns, Some(unit));
        let (exact, spread) = (point(&fine), point(&rounded));
        assert!((exact.low..=exact.high).contains(&spread.hit_ratio), "{exact:?} {spread:?}");
    }
    for (times, reason) in [
        (of(|_| 0), "all I/Os have the same time"),
        (of(|ns| ns / 1_000_000), "more than 10,000,000 I/Os a second are no times"),
        (of(|ns| ns / 20_000_000_000 * 20_000_000_000), "the times are multiples of 20 s"),
    ] {
        assert_eq!((times.useless_times.as_deref(), times.assumed_rates.len()), (Some(reason), 2));
        let (exact, band) = (point(&fine), point(&times));
        assert!(band.low <= exact.low && exact.high <= band.high, "{exact:?} {band:?}");
    }
}

#[test]
fn smq_of_a_volume_of_unknown_size_is_a_band() {
    let trace = requests(60_000, 4_000, 1_000_000);
    let touched = trace.iter().map(|request| (request.sector + u64::from(request.sectors)) * 512).max().unwrap();
    let of =
        |volume| curves(CurveSettings { volume, sizes: vec![64 << 20], ..settings(&["smq", "lru"]) }, &trace, true);
    let [unknown, small, large, larger] = [None, Some(touched), Some(1 << 40), Some(1 << 45)].map(of);
    let point = |document: &CacheCurves| document.blocks[0].curves[0].points[0].clone();
    assert_eq!(unknown.assumed_volumes, [touched, 16 * 1024 * 65_536], "16 blocks for each of 1,024 entries");
    assert!(small.assumed_volumes.is_empty() && small.volume_bytes == Some(touched));
    assert_ne!(point(&small).hit_ratio, point(&large).hit_ratio);
    assert_eq!(point(&large).hit_ratio, point(&larger).hit_ratio, "nothing changes any more");
    assert_eq!(point(&unknown).low, point(&small).low.min(point(&large).low));
    assert_eq!(point(&unknown).high, point(&small).high.max(point(&large).high));
    let lru = &unknown.blocks[0].curves[1].points[0];
    assert_eq!((lru.low, lru.high), (lru.hit_ratio, lru.hit_ratio));
}

#[test]
fn a_recorded_size_counts_unless_the_trace_touches_more() {
    let finish = |volume, recorded| {
        let mut first = FirstPass::new(CurveSettings { volume, ..settings(&["lru"]) }).unwrap();
        requests(100, 4_000, 1_000_000).iter().for_each(|request| first.request(request));
        first.finish(true, recorded).map(|second| second.finish().volume_bytes)
    };
    assert_eq!(finish(None, Some(1 << 41)), Ok(Some(1 << 41)));
    assert_eq!(finish(Some(1 << 40), Some(1 << 41)), Ok(Some(1 << 40)));
    assert_eq!(finish(None, Some(1 << 20)), Ok(None));
    assert!(finish(Some(1 << 20), None).unwrap_err().starts_with("--volume-size 1 MiB: expected"));
}

#[test]
fn impossible_settings_are_one_line() {
    for (change, message) in [
        (CurveSettings { blocks: vec![6 << 10], ..settings(&["lru"]) }, "--block 6 KiB: expected a multiple of 4 KiB"),
        (CurveSettings { sizes: vec![1 << 15], ..settings(&["lru"]) }, "--sizes 32 KiB: less than one block"),
        (CurveSettings { sizes: vec![1 << 25], ..settings(&["bcache"]) }, "--sizes 32 MiB: the kernel refuses bcache"),
        (CurveSettings { kernel: "3.2".into(), ..settings(&["smq"]) }, "--kernel 3.2: expected a version"),
    ] {
        let error = FirstPass::new(change).err().unwrap();
        assert!(error.starts_with(message) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn samples_in_turn_count_reads_and_writes_alike() {
    // Each read is followed by a write of the same block: a sample must not count only reads, or only writes.
    let block = |index: u64| hash64(index / 2) % 800;
    let at = |index: u64| Request {
        time_ns: index * 1_000_000,
        op: if index.is_multiple_of(2) { Op::Read } else { Op::Write { sync: true } },
        sector: block(index) * 128,
        sectors: 8,
        task: 1,
    };
    let trace: Vec<Request> = (0..20_000).map(at).collect();
    let points = |sample, samples| {
        let sizes = vec![100 << 20];
        let mut first = FirstPass::new(CurveSettings { sample, samples, sizes, ..settings(&["lru"]) }).unwrap();
        trace.iter().for_each(|request| first.request(request));
        first.finish(true, None).unwrap().finish().blocks.remove(0).curves.remove(0).points
    };
    let exact = points(None, 1);
    for samples in [1, 2, 4, 8] {
        for (exact, sampled) in exact.iter().zip(points(Some(0.01), samples)) {
            let ratios = |point: &CurvePoint| [Some(point.hit_ratio), point.read_hit_ratio, point.write_hit_ratio];
            for (exact, sampled) in ratios(exact).into_iter().zip(ratios(&sampled)) {
                assert!((exact.unwrap() - sampled.unwrap()).abs() < 0.02, "{samples}: {exact:?} {sampled:?}");
            }
        }
    }
}
