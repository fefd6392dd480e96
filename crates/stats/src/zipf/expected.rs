//! The curve of accesses by rank that a law is expected to show, chance included.
//!
//! Each block of true rank r has a Poisson number of accesses of mean top * r^-s. Ranked by count, the lucky blocks
//! come first, and blocks without an access are not seen; a short trace of a large disk consists mostly of those. So
//! the number of blocks with c accesses or more, and the accesses to them, are summed over ranks for the small c
//! where chance matters.

use super::PowerSums;
use crate::popularity::Popularity;

const CHANCE: usize = 16; // Counts above this rank by popularity, not by chance
const MOST_BLOCKS: f64 = 1e13; // More blocks of 4 KiB than any disk has

/// Calls `see(blocks, mean accesses of each)` over ranks 1..=n: the first 64 ranks one by one, then in ranges of 5 %.
fn over_ranks(s: f64, top: f64, n: f64, mut see: impl FnMut(f64, f64)) {
    let mut rank = 1.0;
    while rank <= n {
        let width = f64::min(if rank < 64.0 { 1.0 } else { rank * 0.05 }, n + 1.0 - rank);
        let middle = rank + (width - 1.0) / 2.0;
        see(width, top * middle.powf(-s));
        rank += width;
    }
}

/// Blocks that show at least one access.
fn seen(s: f64, top: f64, n: f64) -> f64 {
    let mut sum = 0.0;
    over_ranks(s, top, n, |blocks, mean| {
        sum -= blocks * (-mean).exp_m1();
    });
    sum
}

/// The number of blocks that are needed so that `blocks` are seen.
fn population(s: f64, top: f64, blocks: f64) -> f64 {
    let (mut low, mut high) = (blocks.ln(), MOST_BLOCKS.ln());
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        if seen(s, top, middle.exp()) < blocks {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}

/// Blocks of at least c accesses, and the accesses to them, at index c.
fn by_count(s: f64, top: f64, n: f64) -> [(f64, f64); CHANCE + 1] {
    let mut total = [(0.0, 0.0); CHANCE + 1];
    over_ranks(s, top, n, |blocks, mean| {
        // P(X >= c) for c = 0, 1, ...; the accesses to X >= c sum to mean * P(X >= c - 1).
        let (mut equal, mut least) = ((-mean).exp(), 1.0f64);
        for (c, (at_least, accesses)) in total.iter_mut().enumerate().skip(1) {
            let before = least.max(0.0);
            least -= equal;
            equal *= mean / c as f64;
            *at_least += blocks * least.max(0.0);
            *accesses += blocks * mean * before;
        }
    });
    total
}

/// Kolmogorov-Smirnov distance of the accesses by rank from a law of `top` mean accesses to the hottest block.
pub(super) fn distance(popularity: &Popularity, law: &PowerSums, top: f64) -> f64 {
    let accesses = popularity.accesses;
    let expected = by_count(law.s, top, population(law.s, top, popularity.blocks));
    let total = expected[1].1;
    let (mut above, mut sum, mut worst) = (0.0, 0.0, 0f64);
    for class in &popularity.classes {
        above += class.blocks;
        sum += class.accesses;
        if above > expected[CHANCE].0 {
            break;
        }
        worst = worst.max((sum / accesses - top * law.sums(above).0 / total).abs());
    }
    let points = expected[1..].iter().rev();
    let fractions: Vec<f64> = points.clone().map(|(blocks, _)| blocks / popularity.blocks).collect();
    let shares = popularity.shares(&fractions);
    for (share, (_, expected)) in shares.iter().zip(points) {
        worst = worst.max((share.io_share - expected / total).abs());
    }
    worst
}
