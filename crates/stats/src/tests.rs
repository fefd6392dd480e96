//! Random loads for tests: deterministic from their seed.

use crate::hash64;
use crate::zipf::{Popularity, PopularityClass};

/// Popularity from the access count of every item.
pub fn popularity_of(counts: impl IntoIterator<Item = u64>) -> Popularity {
    let mut counts: Vec<u64> = counts.into_iter().filter(|&count| count > 0).collect();
    counts.sort_unstable();
    let classes = counts.chunk_by(|a, b| a == b).map(|equal| PopularityClass {
        count: equal[0],
        blocks: equal.len() as f64,
        accesses: equal[0] as f64 * equal.len() as f64,
    });
    Popularity::new(classes.collect())
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash64(self.0)
    }

    /// Uniform in 0..below.
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(below)) >> 64) as u64
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws ranks 0..n with probability proportional to (rank + 1)^-s, by Walker's alias method.
pub struct Zipf {
    keep: Vec<f64>,
    alias: Vec<u32>,
}

impl Zipf {
    pub fn new(n: usize, s: f64) -> Self {
        let mut keep: Vec<f64> = (1..=n).map(|rank| (rank as f64).powf(-s)).collect();
        let sum: f64 = keep.iter().sum();
        keep.iter_mut().for_each(|p| *p *= n as f64 / sum);
        let mut alias: Vec<u32> = (0..n as u32).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..n as u32).partition(|&rank| keep[rank as usize] < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            alias[poor as usize] = rich;
            keep[rich as usize] -= 1.0 - keep[poor as usize];
            if keep[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { keep, alias }
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        let slot = random.below(self.keep.len() as u64) as usize;
        if random.unit() < self.keep[slot] { slot as u64 } else { self.alias[slot].into() }
    }
}
