//! Prints what recording one value or I/O costs, per statistic.
//!
//! `cargo run --release -p blklab-stats --example cost`

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

fn main() {
    let mut seed = 1;
    let latencies: Vec<u64> = (0..IOS)
        .map(|_| 50_000 + (noise(&mut seed) % 1000) * (noise(&mut seed) % 1000))
        .collect();
    cost("quantiles", blklab_stats::Quantiles::new, |statistic| {
        latencies.iter().for_each(|&value| statistic.record(value))
    });
}
