//! Offsets and sizes of a job's I/Os.

use crate::load::{Distribution, RandomMap};
use crate::rng::{Rng, mix};

/// Draws block numbers of a region of `blocks`.
#[derive(Clone, Debug, Default)]
pub enum Offsets {
    #[default]
    Uniform,
    Zipf(ZipfRanks),             // Zipf's law over ranks; the ranks are scattered over the region
    Pareto(f64),                 // fio's Pareto: `blocks · u^(ln h / ln (1 − h))` (fio, lib/zipf.c, `pareto_init`)
    Normal(f64),                 // Gaussian about the middle; the deviation as a fraction of the region
    Zoned(Vec<(f64, f64, f64)>), // Zones: (accesses up to here, first, width), all as fractions
}

impl Offsets {
    /// The generator of a distribution over `blocks`.
    pub fn new(distribution: &Distribution, blocks: u64) -> Self {
        match distribution {
            Distribution::Random => Self::Uniform,
            Distribution::Zipf { theta } => Self::Zipf(ZipfRanks::new(blocks.max(1), *theta)),
            Distribution::Pareto { h } => Self::Pareto(h.ln() / (1.0 - h).ln()),
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
    #[inline]
    pub fn next(&self, blocks: u64, rng: &mut Rng) -> u64 {
        let at = |fraction: f64| ((fraction * blocks as f64) as u64).min(blocks.saturating_sub(1));
        match self {
            Self::Uniform => rng.below(blocks),
            Self::Zipf(zipf) => mix(zipf.rank(rng)) % blocks.max(1),
            Self::Pareto(power) => mix(at(rng.unit().powf(*power))) % blocks.max(1),
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
    next: u64, // The position in the pass
    reshuffles: bool,
}

impl Passes {
    /// The passes over `blocks`; none without a map.
    pub fn new(map: RandomMap, blocks: u64, rng: &mut Rng) -> Option<Self> {
        (map != RandomMap::Off).then(|| Self {
            keys: std::array::from_fn(|_| rng.next()),
            mask: blocks.max(1).next_power_of_two() - 1,
            next: 0,
            reshuffles: map == RandomMap::Reshuffled,
        })
    }

    /// The next block, below `blocks`.
    #[inline]
    pub fn next(&mut self, blocks: u64, rng: &mut Rng) -> u64 {
        let shift = self.mask.count_ones().div_ceil(2);
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
                block ^= block >> shift;
            }
            if block < blocks {
                return block;
            }
        }
    }
}

/// Zipf's law by rejection-inversion: constant time and memory for any number of blocks.
///
/// Source: Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
/// distributions", ACM TOMACS 6 (1996).
#[derive(Clone, Debug)]
pub struct ZipfRanks {
    n: f64,
    theta: f64,
    first: f64,
    last: f64,
    squeeze: f64,
}

impl ZipfRanks {
    fn new(blocks: u64, theta: f64) -> Self {
        let mut zipf = Self { n: blocks as f64, theta, first: 0.0, last: 0.0, squeeze: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(zipf.n + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - 2f64.powf(-theta));
        zipf
    }

    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.last + rng.unit() * (self.first - self.last);
            let x = self.inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.squeeze || u >= self.integral(k + 0.5) - k.powf(-self.theta) {
                return k as u64 - 1;
            }
        }
    }

    /// ∫ x^-θ, as ((x^(1-θ)) − 1)/(1−θ) or ln x.
    fn integral(&self, x: f64) -> f64 {
        let p = 1.0 - self.theta;
        if p.abs() < 1e-9 { x.ln() } else { (x.powf(p) - 1.0) / p }
    }

    fn inverse(&self, y: f64) -> f64 {
        let p = 1.0 - self.theta;
        if p.abs() < 1e-9 { y.exp() } else { (1.0 + p * y).max(f64::MIN_POSITIVE).powf(1.0 / p) }
    }
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
    #[inline]
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
