//! Offsets and sizes of a job's I/Os.

use crate::load::{Distribution, RandomMap};
use crate::rng::{Rng, mix};

/// Draws block numbers of a region of `blocks`.
#[derive(Clone, Debug, Default)]
pub enum Offsets {
    #[default]
    Uniform,
    Zipf(ZipfRanks, u64),        // Zipf's law over ranks, which are scattered from this one
    Pareto(f64, u64),            // fio's Pareto: `blocks · u^(ln h / ln (1 − h))` (fio, lib/zipf.c, `pareto_init`)
    Normal(f64),                 // Gaussian about the middle; the deviation as a fraction of the region
    Zoned(Vec<(f64, f64, f64)>), // Zones: (accesses up to here, first, width), all as fractions
}

impl Offsets {
    /// The generator of a distribution over `blocks`, of the `index`th of a group's jobs, whose region begins at `start`.
    pub fn new(distribution: &Distribution, blocks: u64, start: u64, index: u64) -> Self {
        // As in fio, each job has its own hottest block, and the seed of the experiment does not move it.
        let first = mix(start ^ mix(index + 1)) >> 32;
        match distribution {
            Distribution::Random => Self::Uniform,
            Distribution::Zipf { theta } => Self::Zipf(ZipfRanks::new(blocks.max(1), *theta), first),
            Distribution::Pareto { h } => Self::Pareto(h.ln() / (1.0 - h).ln(), first),
            Distribution::Normal { deviation } => Self::Normal(deviation / 100.0),
            Distribution::Zoned { zones } => {
                let (mut accesses, mut start) = (0.0, 0.0);
                let total: f64 = zones.iter().map(|z| z.0).sum::<f64>().max(f64::MIN_POSITIVE);
                let zone = |&(share, width): &(f64, f64)| {
                    accesses += share / total;
                    start += width / 100.0;
                    (accesses, start - width / 100.0, width / 100.0)
                };
                Self::Zoned(zones.iter().map(zone).collect())
            }
        }
    }

    /// The next block, below `blocks`.
    pub fn next(&self, blocks: u64, rng: &mut Rng) -> u64 {
        let at = |fraction: f64| ((fraction * blocks as f64) as u64).min(blocks.saturating_sub(1));
        match self {
            Self::Uniform => rng.below(blocks),
            Self::Zipf(zipf, first) => scattered(zipf.rank(rng), *first, blocks),
            Self::Pareto(power, first) => scattered(at(rng.unit().powf(*power)), *first, blocks),
            Self::Normal(deviation) => loop {
                let fraction = 0.5 + rng.normal() * deviation;
                if (0.0..1.0).contains(&fraction) {
                    break at(fraction);
                }
            },
            Self::Zoned(zones) => {
                let draw = rng.unit();
                let zone = zones.iter().find(|z| draw < z.0).or(zones.last());
                zone.map_or(0, |&(_, start, width)| at(start + width * rng.unit()))
            }
        }
    }
}

/// The block of a rank. fio since 2.12 multiplies by this number (hash.h, `GOLDEN_RATIO_64`): in a region of a power of
/// two, each block has one rank, and the hottest ones are spread more evenly than by chance.
fn scattered(rank: u64, first: u64, blocks: u64) -> u64 {
    let place = rank.wrapping_mul(0x61c8_8646_80b5_83eb).wrapping_add(first);
    if blocks.is_power_of_two() { place & (blocks - 1) } else { place % blocks.max(1) }
}

/// Visits each block of a region once a pass, in random order.
///
/// fio marks visited blocks in a bitmap, and takes the next free block where it draws a visited one. A permutation
/// needs no memory, and differs only late in a pass, when fio's I/Os follow each other more often. It is made of steps
/// that can be undone in a range of a power of two: multiplication by an odd number, and the shift of SplitMix64's
/// finaliser. Numbers outside the region are left out.
#[derive(Clone, Debug)]
pub struct Passes {
    keys: [u64; 4],
    mask: u64,
    shift: u32,
    next: u64, // The position in the pass
    reshuffles: bool,
}

impl Passes {
    /// The passes over `blocks`; none without a map.
    pub fn new(map: RandomMap, blocks: u64, rng: &mut Rng) -> Option<Self> {
        let bits = blocks.max(1).next_power_of_two().trailing_zeros();
        (map != RandomMap::Off).then(|| Self {
            keys: std::array::from_fn(|_| rng.next()),
            mask: (1 << bits) - 1,
            shift: bits.div_ceil(2),
            next: 0,
            reshuffles: map == RandomMap::Reshuffled,
        })
    }

    /// The next block, below `blocks`.
    pub fn next(&mut self, blocks: u64, rng: &mut Rng) -> u64 {
        loop {
            if self.next > self.mask {
                self.next = 0;
                if self.reshuffles {
                    self.keys = std::array::from_fn(|_| rng.next());
                }
            }
            let mut block = self.next;
            self.next += 1;
            for key in self.keys {
                block = block.wrapping_add(key >> 32).wrapping_mul(key | 1) & self.mask;
                block ^= block >> self.shift;
            }
            if block < blocks {
                return block;
            }
        }
    }
}

/// Zipf's law as fio draws it (lib/zipf.c): exact for the first two ranks, and by an integral for the others: with a
/// theta of 1.2, the next ones get a few per cent more than by the law, and the last ones less.
///
/// Source: Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994.
#[derive(Clone, Debug)]
pub struct ZipfRanks {
    n: f64,
    power: f64,
    first_two: f64, // The share of the first two ranks, and of all, in units of the first
    total: f64,
    eta: f64,
}

/// Most ranks of which fio adds up the shares (`ZIPF_MAX_GEN`).
const MOST_RANKS: u64 = 10_000_000;

impl ZipfRanks {
    fn new(blocks: u64, theta: f64) -> Self {
        let (first_two, total) = (zeta(2, theta), zeta(blocks.min(MOST_RANKS), theta));
        let eta = (1.0 - (2.0 / blocks as f64).powf(1.0 - theta)) / (1.0 - first_two / total);
        Self { n: blocks as f64, power: 1.0 / (1.0 - theta), first_two, total, eta }
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        match u * self.total {
            z if z < 1.0 => 0,
            z if z < self.first_two => 1,
            _ => (self.n * (self.eta * (u - 1.0) + 1.0).powf(self.power)) as u64,
        }
    }
}

/// `1 + 2^-θ + … + n^-θ`: the first 1000 terms, and the others by the formula of Euler and Maclaurin.
fn zeta(n: u64, theta: f64) -> f64 {
    let exact = n.min(1000);
    let integral = |x: f64| x.powf(1.0 - theta) / (1.0 - theta) + x.powf(-theta) / 2.0;
    let first: f64 = (1..=exact).map(|k| (k as f64).powf(-theta)).sum();
    first + integral(n as f64) - integral(exact as f64)
}

/// Draws sizes by weight.
#[derive(Clone, Debug, Default)]
pub struct Sizes(Vec<(f64, u32)>);

impl Sizes {
    /// From (bytes, weight) pairs.
    pub fn new(sizes: &[(u32, f64)]) -> Self {
        let total: f64 = sizes.iter().map(|s| s.1).sum::<f64>().max(f64::MIN_POSITIVE);
        let mut sum = 0.0;
        let cumulated = |&(bytes, weight): &(u32, f64)| {
            sum += weight / total;
            (sum, bytes)
        };
        Self(sizes.iter().map(cumulated).collect())
    }

    /// The next size in bytes.
    pub fn next(&self, rng: &mut Rng) -> u32 {
        if let [(_, only)] = self.0[..] {
            return only;
        }
        let draw = rng.unit();
        self.0.iter().find(|s| draw < s.0).or(self.0.last()).map_or(0, |s| s.1)
    }
}

#[cfg(test)]
mod tests;
