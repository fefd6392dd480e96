//! Whether the intervals of smq hold what a whole cache finds in a further phase of its clock, and those of sampled LRU
//! the exact ratio: synthetic traces of many kinds.
//! `cargo test -p blklab-cache --test coverage -- --ignored --nocapture` takes minutes, and prints both halves.

use blklab_cache::curve::{CurvePoint, CurveSettings, FirstPass, Interval, SimulatedCache, SimulatedPolicy, combine};
use blklab_cache::{CacheMode, Geometry, Op, Request, SmqKernel};
use blklab_stats::hash64;
use std::collections::HashSet;

const BLOCK_SECTORS: u64 = 128;

/// A trace; its kind follows from the seed.
struct Synthetic {
    requests: Vec<Request>,
    blocks: u64,
    mode: CacheMode,
}

fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}

/// Zipf accesses to up to `scale` million blocks, with hot neighbours, hot sets that change, scans, sizes and rates.
fn synthetic(seed: u64, scale: f64) -> Synthetic {
    let draw = |what: u64| unit(hash64(hash64(seed) ^ what));
    let pick = |what: u64, from: &[f64]| from[(draw(what) * from.len() as f64) as usize];
    let theta = 0.6 + 0.6 * draw(1) + 1e-6;
    let blocks = (scale * 2f64.powf(17.0 + 3.0 * draw(2))) as u64;
    let count = (blocks as f64 * (2.0 + 4.0 * draw(3))) as u64;
    let neighbours = pick(4, &[1.0, 16.0, 256.0]) as u64;
    let hot_sets = pick(5, &[1.0, 1.0, 4.0, 16.0]) as u64;
    let scans = pick(6, &[0.0, 0.0, 0.1, 0.3]);
    let size = pick(7, &[8.0, 8.0, 32.0, 128.0, 0.0]) as u32;
    let writes = pick(8, &[0.0, 0.3, 0.7]);
    let rate = 10f64.powf(2.3 + 2.0 * draw(9));
    let mode = if draw(10) < 0.5 { CacheMode::Writeback } else { CacheMode::Writethrough };
    let (mut now, mut scan) = (0.0, 0);
    let request = |index: u64| {
        let random = |what: u64| unit(hash64(hash64(seed ^ 77) ^ (index << 8 | what)));
        now += -(1.0 - random(0)).ln() / rate;
        let (block, sectors, is_write) = if random(1) < scans {
            scan = (scan + 1) % blocks;
            (scan, 128, false)
        } else {
            let end = (blocks as f64).powf(1.0 - theta) - 1.0;
            let rank = (1.0 + end * random(2)).powf(1.0 / (1.0 - theta)) as u64 % blocks;
            let hot_set = if random(3) < 0.5 { index * hot_sets / count } else { 0 };
            let block = hash64((rank / neighbours) ^ (hot_set << 48)) % (blocks / neighbours) * neighbours;
            let any = [8, 8, 16, 32, 64, 128][(random(4) * 6.0) as usize];
            (block + rank % neighbours, if size == 0 { any } else { size }, random(5) < writes)
        };
        let free = BLOCK_SECTORS - u64::from(sectors);
        let sector = block * BLOCK_SECTORS + (random(6) * (free + 1) as f64) as u64 / 8 * 8;
        let op = if is_write { Op::Write { sync: true } } else { Op::Read };
        Request { time_ns: (now * 1e9) as u64, op, sector, sectors, task: 1 }
    };
    Synthetic { requests: (0..count).map(request).collect(), blocks, mode }
}

/// How many hit ratios of a further phase are in the interval, and how many there are: of miniatures, of whole caches.
#[derive(Default)]
struct Coverage {
    held: [usize; 2],
    all: usize,
    error: f64,
}

impl Coverage {
    /// Adds caches of these parts of a trace's footprint.
    fn add(&mut self, seed: u64, scale: f64, miniature_blocks: f64, parts: &[f64]) {
        let trace = synthetic(seed, scale);
        let (mut seen, mut accesses) = (HashSet::new(), [0u64; 2]);
        for request in &trace.requests {
            seen.insert(request.sector / BLOCK_SECTORS);
            accesses[usize::from(request.op != Op::Read)] += 1;
        }
        let footprint = seen.len() as u64 * BLOCK_SECTORS * 512;
        for size in parts.iter().map(|part| (footprint as f64 / part) as u64) {
            let cache_blocks = (size / BLOCK_SECTORS / 512) as u32;
            let geometry = Geometry { origin_blocks: trace.blocks, cache_blocks, block_sectors: BLOCK_SECTORS as u32 };
            let policy = SimulatedPolicy::Smq(SmqKernel::V4_15, trace.mode);
            let run = |salt: u64, blocks: f64| {
                let mut cache = SimulatedCache::new(policy, geometry, size, footprint, salt, blocks).unwrap();
                trace.requests.iter().for_each(|request| cache.request(request, 0));
                cache.estimate(accesses, 1, BLOCK_SECTORS as u32)
            };
            let four = |blocks: f64| combine(size, 1.0, &[0, 1, 2, 3].map(|salt| run(salt, blocks)), Interval::OfRun);
            let points = [four(miniature_blocks), four(f64::INFINITY)];
            let further = [8, 9, 10, 11].map(|salt| run(salt, f64::INFINITY).ratios[2].unwrap());
            for ratio in further {
                self.all += 1;
                for (held, point) in self.held.iter_mut().zip(&points) {
                    *held += usize::from((point.low..=point.high).contains(&ratio));
                }
                self.error += points[0].hit_ratio - ratio;
            }
        }
    }
}

#[test]
fn intervals_hold_a_further_phase_and_miniatures_have_no_bias() {
    let mut coverage = Coverage::default();
    (0..8).for_each(|seed| coverage.add(seed, 0.25, 8192.0, &[2.0, 0.5]));
    let share = coverage.held.map(|held| held as f64 / coverage.all as f64);
    assert!(share[0] >= 0.9 && share[1] >= 0.9, "{share:?}");
    assert!((coverage.error / coverage.all as f64).abs() < 0.005, "{}", coverage.error / coverage.all as f64);
}

#[test]
#[ignore = "takes minutes: forty large traces"]
fn intervals_of_forty_traces_hold_a_further_phase() {
    // With seeds below 40, the causes of too narrow intervals were found.
    for half in 0..2 {
        let mut coverage = Coverage::default();
        (40 + half..80).step_by(2).for_each(|seed| coverage.add(seed, 1.0, 32_768.0, &[16.0, 2.0, 0.5]));
        let [miniatures, whole] = coverage.held.map(|held| 100.0 * held as f64 / coverage.all as f64);
        let error = 100.0 * coverage.error / coverage.all as f64;
        println!("half {half}: miniatures {miniatures:.1} %, whole caches {whole:.1} %, mean error {error:+.2} points");
        assert!(miniatures >= 95.0 && whole >= 95.0);
    }
}

/// How many points of LRU's curve from a sample of 1 % have the exact ratio in their interval, and how many there are.
fn sampled_points(seed: u64, scale: f64) -> [usize; 2] {
    let trace = synthetic(seed, scale);
    let curve = |sample: Option<f64>, sizes: Vec<u64>| {
        let (policies, kernel) = (vec!["lru".to_owned()], "6.1".to_owned());
        let settings = CurveSettings {
            policies,
            blocks: vec![BLOCK_SECTORS * 512],
            sizes,
            kernel,
            writeback: false,
            sample,
            samples: 4,
            volume: None,
        };
        let mut first = FirstPass::new(settings).unwrap();
        trace.requests.iter().for_each(|request| first.request(request));
        first.finish(true, None).unwrap().finish().blocks.remove(0).curves.remove(0).points
    };
    let exact = curve(None, vec![]);
    let sampled = curve(Some(0.01), exact.iter().map(|point| point.cache_bytes).collect());
    let holds = |(exact, point): (&CurvePoint, &CurvePoint)| (point.low..=point.high).contains(&exact.hit_ratio);
    [exact.iter().zip(&sampled).filter(|&pair| holds(pair)).count(), exact.len()]
}

#[test]
fn intervals_of_sampled_lru_hold_the_exact_ratio() {
    let found = (40..60).map(|seed| sampled_points(seed, 0.25));
    let [held, all] = found.fold([0; 2], |sum, [held, all]| [sum[0] + held, sum[1] + all]);
    // A sample of the smallest trace has some 300 blocks; with ten times as many, 97 % are held.
    assert!(all >= 200 && held as f64 >= 0.92 * all as f64, "{held} of {all}");
}
