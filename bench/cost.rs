//! Prints the cost of recording one value or I/O, for each statistic.
//!
//! `cargo run --release -p blklab-stats --example cost`

use blklab_stats::{Arrivals, Distinct, Hotness, Level, Merge, Quantiles, Seeks, SizeHistogram, Streams, Timeline};
use std::hint::black_box;
use std::time::Instant;

const IOS: usize = 2_000_000;

/// Median of seven runs of `work` over all I/Os, each from a fresh statistic.
fn cost<T>(name: &str, mut fresh: impl FnMut() -> T, mut work: impl FnMut(&mut T)) {
    let mut runs: Vec<f64> = (0..7)
        .map(|_| {
            let mut statistic = fresh();
            let start = Instant::now();
            work(&mut statistic);
            let spent = start.elapsed().as_nanos() as f64 / IOS as f64;
            black_box(&statistic);
            spent
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    println!("{name:<44} {:>7.2} ns", runs[runs.len() / 2]);
}

fn noise(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 1
}

/// Skewed: the product of three uniform numbers.
fn skewed(seed: &mut u64, below: u64) -> u64 {
    let mut unit = || noise(seed) as f64 / (1u64 << 63) as f64;
    (unit() * unit() * unit() * below as f64) as u64
}

fn main() {
    let mut seed = 1;
    let mut time = 0;
    let times: Vec<u64> = (0..IOS)
        .map(|_| {
            time += noise(&mut seed) % 20_000;
            time
        })
        .collect();
    let latencies: Vec<u64> =
        (0..IOS).map(|_| 50_000 + (noise(&mut seed) % 1000) * (noise(&mut seed) % 1000)).collect();
    let sizes: Vec<u32> = (0..IOS).map(|_| 4096 << (noise(&mut seed) % 6)).collect();
    let far: Vec<u64> = (0..IOS).map(|_| noise(&mut seed) % (1 << 31)).collect();
    let blocks: Vec<u64> = (0..IOS).map(|_| skewed(&mut seed, 1 << 28)).collect();
    let few: Vec<u64> = (0..IOS).map(|_| skewed(&mut seed, 1 << 16)).collect();

    cost("quantiles", Quantiles::default, |all| {
        latencies.iter().for_each(|&value| all.record(value));
    });
    cost("sizes", SizeHistogram::default, |all| {
        sizes.iter().for_each(|&bytes| all.record(bytes));
    });
    cost("distinct, 4 KiB", Distinct::default, |all| {
        far.iter().for_each(|&block| all.insert(block, 1));
    });
    cost("level", Level::default, |all| {
        for (n, &time) in times.iter().enumerate() {
            all.set(time, n as u64 & 31);
        }
    });
    cost("streams, 64 sequential", Streams::default, |all| {
        for n in 0..IOS as u64 {
            all.record(((n % 64) << 30) + n / 64 * 8, 8);
        }
    });
    cost("seeks", Seeks::default, |all| {
        far.iter().for_each(|&sector| all.record(sector, 8));
    });
    cost("arrivals", Arrivals::default, |all| {
        times.iter().for_each(|&time| all.record(time));
    });
    hotness(&far, &blocks, &few);
    cost("ALL of them, random 4 KiB", All::default, |all| {
        for (n, &time) in times.iter().enumerate() {
            let (sector, taken) = (blocks[n] * 8, latencies[n]);
            all.arrivals.record(time);
            all.sizes.record(sizes[n]);
            all.latencies.iter_mut().for_each(|one| one.record(taken));
            all.distinct.insert(blocks[n], 1);
            all.depth.set(time, n as u64 & 31);
            all.depth.set(time, n as u64 & 63);
            all.streams.record(sector, 8);
            all.seeks.record(sector, 8);
            all.hotness.record(blocks[n], 1, n % 3 == 0);
            all.timeline.at(time).0 += 1;
        }
    });
    cost("timeline of counters", Timeline::<Count>::default, |all| {
        times.iter().for_each(|&time| all.at(time).0 += 1);
    });
}

fn hotness(far: &[u64], blocks: &[u64], few: &[u64]) {
    cost("hotness, 4 KiB, exact", Hotness::default, |all| {
        few.iter().for_each(|&block| all.record(block, 1, false));
    });
    cost("hotness, 4 KiB, sampled, skewed", Hotness::default, |all| {
        blocks.iter().for_each(|&block| all.record(block, 1, false));
    });
    cost("hotness, 4 KiB, sampled, uniform", Hotness::default, |all| {
        far.iter().for_each(|&block| all.record(block, 1, false));
    });
    cost("hotness, 1 MiB, uniform", Hotness::default, |all| {
        far.iter().for_each(|&block| all.record(block, 256, false));
    });
}

/// The statistics of one trace; three latencies: queued, at the device, in total.
#[derive(Default)]
struct All {
    arrivals: Arrivals,
    sizes: SizeHistogram,
    latencies: [Quantiles; 3],
    distinct: Distinct,
    depth: Level,
    streams: Streams,
    seeks: Seeks,
    hotness: Hotness,
    timeline: Timeline<Count>,
}

#[derive(Clone, Default)]
struct Count(u64);

impl Merge for Count {
    fn merge(&mut self, other: &Self) {
        self.0 += other.0;
    }
}
