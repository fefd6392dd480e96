//! Does popularity follow Zipf's law, p(rank) ~ rank^-s, and with which exponent?
//!
//! **Exponent.** Maximum likelihood of the accesses by rank: the s at which the mean of ln rank
//! under the law equals the mean observed. The true ranks are not known; ranking by observed count
//! puts the lucky blocks first, which steepens the tail where counts differ by chance alone. So
//! only blocks of at least 16 accesses are fitted (8, 4 or 1 where fewer than 200 blocks have
//! that many), as a law cut off at that rank: the exponent of a law so cut off is the same. This
//! is the remedy of Clauset, Shalizi and Newman, "Power-law distributions in empirical data" (SIAM
//! Review 51, 2009), a lower cut-off, applied to ranks. Fitting the frequency of frequencies
//! instead uses one datum a block, not one an access, and knows less about the head.
//! In the tests (s = 0.6 to 1.5, 10^3 and 10^5 blocks, 10 to 100 accesses a block, also sampled)
//! the exponent is within 0.03.
//!
//! **Fit.** Kolmogorov-Smirnov distance between the observed curve of accesses by rank and the one
//! the law leads to expect (chance in the counts included), over all blocks, those not fitted too;
//! and the gain in log-likelihood over uniform access.

use serde::Serialize;

/// How popularity is spread over blocks.
#[derive(Debug, Clone, Default, Copy, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub enum ZipfVerdict {
    /// Follows Zipf's law: the exponent is 0.2 or more, the KS distance 0.05 or less.
    #[serde(rename = "zipf")]
    Zipf,
    /// Blocks are accessed alike: their counts vary no more than chance makes them.
    #[serde(rename = "uniform")]
    Uniform,
    /// Neither, or too few accesses to decide.
    #[default]
    #[serde(rename = "not zipf")]
    NotZipf,
}

/// Zipf's law, fitted to the popularity of blocks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct ZipfFit {
    /// The verdict.
    pub verdict: ZipfVerdict,
    /// The reason for the verdict, in one sentence.
    pub reason: String,
    /// Exponent of the best fit by maximum likelihood, also if the verdict is not `zipf`; `null` if none could be
    /// fitted.
    pub exponent: Option<f64>,
    /// Largest gap between the observed and the fitted shares of the accesses, 0 to 1 (Kolmogorov-Smirnov); `null` if
    /// nothing could be fitted.
    pub ks_distance: Option<f64>,
    /// Gain of the fit in log-likelihood over uniform access, in nats for each access; `null` if nothing could be
    /// fitted.
    pub gain_over_uniform_nats: Option<f64>,
    /// Number of blocks that were fitted: the hottest ones.
    pub fitted_blocks: u64,
    /// Fewest accesses to a block that was fitted.
    pub fitted_from_accesses: u64,
}

pub const FEWEST_BLOCKS: f64 = 50.0; // The smallest number of blocks for a fit
pub const LEAST_EXPONENT: f64 = 0.2; // Least exponent called Zipf
pub const MOST_KS: f64 = 0.05; // Largest KS distance called Zipf
/// Spread of popularity beyond chance, (variance - mean) / mean^2 of the counts, below which access is uniform.
pub const MOST_UNIFORM_SPREAD: f64 = 0.1;
const FEWEST_FITTED: f64 = 200.0;

/// Fits Zipf's law.
pub fn fit(popularity: &Popularity) -> ZipfFit {
    let mut fit_result = ZipfFit::default();
    let (blocks, classes) = (popularity.blocks, &popularity.classes);
    if blocks < FEWEST_BLOCKS {
        fit_result.reason = format!("only {blocks:.0} distinct blocks were accessed: too few to tell");
        return fit_result;
    }
    let mean = popularity.accesses / blocks;
    let square = |class: &PopularityClass| class.count as f64 * class.accesses / blocks;
    let variance = classes.iter().map(square).sum::<f64>() - mean * mean;
    let spread = (variance - mean) / (mean * mean);
    let head = head(classes);
    let logs: Vec<f64> = (1..=HEAD).map(|rank| (rank as f64).ln()).collect();
    let (s, ranks) = exponent(head, &logs);
    let law = PowerSums::new(s, &logs);
    let (sum, _) = law.sums(ranks);
    let top = head.iter().map(|class| class.accesses).sum::<f64>() / sum;
    let ks = distance(popularity, &law, top);
    fit_result.exponent = Some(s).filter(|s| s.is_finite());
    fit_result.ks_distance = Some(ks).filter(|ks| ks.is_finite());
    fit_result.gain_over_uniform_nats =
        Some(ranks.ln() - sum.ln() - s * mean_rank_log(head)).filter(|gain| gain.is_finite());
    fit_result.fitted_blocks = ranks.round() as u64;
    fit_result.fitted_from_accesses = head.last().map_or(0, |class| class.count);
    (fit_result.verdict, fit_result.reason) = verdict(mean, spread, s, ks);
    fit_result
}

fn verdict(mean: f64, spread: f64, s: f64, ks: f64) -> (ZipfVerdict, String) {
    let points = ks * 100.0;
    if spread < MOST_UNIFORM_SPREAD && mean < 1.5 {
        (ZipfVerdict::NotZipf, format!("blocks were accessed {mean:.2} times each: too rarely to tell"))
    } else if spread < MOST_UNIFORM_SPREAD {
        (ZipfVerdict::Uniform, "accesses to a block vary no more than chance makes them".to_owned())
    } else if s < LEAST_EXPONENT {
        (ZipfVerdict::NotZipf, format!("the hottest blocks are about equally hot (exponent {s:.2})"))
    } else if ks.is_nan() || ks > MOST_KS {
        (ZipfVerdict::NotZipf, format!("the best fit, exponent {s:.2}, is off by {points:.1} % of the I/O"))
    } else {
        (ZipfVerdict::Zipf, format!("exponent {s:.2} fits every share within {points:.1} % of the I/O"))
    }
}

/// The hottest classes, as far as ranks are reliable.
fn head(classes: &[PopularityClass]) -> &[PopularityClass] {
    for least in [16, 8, 4] {
        let head = &classes[..classes.partition_point(|class| class.count >= least)];
        if head.iter().map(|class| class.blocks).sum::<f64>() >= FEWEST_FITTED {
            return head;
        }
    }
    classes
}

/// Mean of ln rank over the accesses.
fn mean_rank_log(classes: &[PopularityClass]) -> f64 {
    let (mut above, mut logs, mut accesses) = (0.0, 0.0, 0.0);
    for class in classes {
        logs += mean_log(above, class.blocks) * class.accesses;
        accesses += class.accesses;
        above += class.blocks;
    }
    logs / accesses
}

/// The exponent of maximum likelihood, 0..=4, and the number of ranks; `logs` are those of the head.
fn exponent(classes: &[PopularityClass], logs: &[f64]) -> (f64, f64) {
    let ranks: f64 = classes.iter().map(|class| class.blocks).sum();
    let logs = &logs[..HEAD.min(ranks as usize + 1)];
    let observed = mean_rank_log(classes);
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..30 {
        let s = (low + high) / 2.0;
        let (sum, sum_logs) = PowerSums::new(s, logs).sums(ranks);
        if sum_logs / sum > observed {
            low = s;
        } else {
            high = s;
        }
    }
    ((low + high) / 2.0, ranks)
}

const HEAD: usize = 512; // Ranks summed one by one; beyond, by the integral, which is off by less than 1e-6 there

/// Sums of r^-s and of r^-s ln r over the ranks 1..=n.
struct PowerSums {
    s: f64,
    head: Vec<(f64, f64)>, // Sums up to each rank of the head
}

impl PowerSums {
    /// Sums of the ranks whose logarithms are given.
    fn new(s: f64, logs: &[f64]) -> Self {
        let add = |(sum, sum_logs): &mut (f64, f64), log: &f64| {
            let p = (-s * log).exp();
            (*sum, *sum_logs) = (*sum + p, *sum_logs + p * log);
            Some((*sum, *sum_logs))
        };
        let head = [(0.0, 0.0)].into_iter().chain(logs.iter().scan((0.0, 0.0), add)).collect();
        Self { s, head }
    }

    /// Integrals of x^-s and of x^-s ln x from HEAD + 1/2.
    fn tail(&self, to: f64) -> (f64, f64) {
        let (a, b) = ((HEAD as f64 + 0.5).ln(), to.ln());
        let e = 1.0 - self.s;
        if e.abs() < 1e-6 {
            return (b - a, (b * b - a * a) / 2.0);
        }
        let f = |l: f64| (e * l).exp() / e;
        let g = |l: f64| (e * l).exp() * (l / e - 1.0 / (e * e));
        (f(b) - f(a), g(b) - g(a))
    }

    /// The two sums; `n` may be a fraction.
    fn sums(&self, n: f64) -> (f64, f64) {
        if n <= HEAD as f64 {
            let whole = n as usize;
            let part = n - whole as f64;
            let (a, b) = (self.head[whole], self.head[(whole + 1).min(HEAD)]);
            return (a.0 + part * (b.0 - a.0), a.1 + part * (b.1 - a.1));
        }
        let tail = self.tail(n + 0.5);
        (self.head[HEAD].0 + tail.0, self.head[HEAD].1 + tail.1)
    }
}

/// Mean of ln rank over the `blocks` ranks that follow the first `above`.
fn mean_log(above: f64, blocks: f64) -> f64 {
    if above + blocks <= 64.0 && blocks == blocks.round() && above == above.round() {
        let (a, b) = (above as u32, blocks as u32);
        return (a + 1..=a + b).map(|r| f64::from(r).ln()).sum::<f64>() / blocks;
    }
    let f = |x: f64| x * x.ln() - x;
    (f(above + blocks + 0.5) - f(above + 0.5)) / blocks
}

// The curve of accesses by rank that a law is expected to show, chance included.
//
// Each block of true rank r has a Poisson number of accesses of mean top * r^-s. Ranked by count, the lucky blocks
// come first, and blocks without an access are not seen; a short trace of a large disk consists mostly of those. So
// the number of blocks with c accesses or more, and the accesses to them, are summed over ranks for the small c
// where chance matters.

const CHANCE: usize = 16; // Counts above this rank by popularity, not by chance
const MOST_BLOCKS: f64 = 1e13; // More blocks of 4 KiB than any disk has

/// The blocks of a step over ranks 1..=n, and the mean accesses to each: the first 64 ranks one by one, then in ranges
/// of 5 %.
fn step(s: f64, top: f64, rank: f64, n: f64) -> (f64, f64) {
    let width = f64::min(if rank < 64.0 { 1.0 } else { rank * 0.05 }, n + 1.0 - rank);
    let middle = rank + (width - 1.0) / 2.0;
    (width, top * middle.powf(-s))
}

/// The number of blocks that are needed so that `blocks` are seen: show at least one access.
fn population(s: f64, top: f64, blocks: f64) -> f64 {
    let mut steps = vec![(1.0, 0.0)]; // The first rank of each step, and the blocks seen before it
    let mut seen = |n: f64| {
        let after = |(rank, before): (f64, f64), n: f64| {
            let (width, mean) = step(s, top, rank, n);
            (rank + width, before - width * (-mean).exp_m1())
        };
        while steps[steps.len() - 1].0 <= n {
            steps.push(after(steps[steps.len() - 1], f64::INFINITY));
        }
        after(steps[steps.partition_point(|(rank, _)| *rank <= n) - 1], n).1
    };
    let (mut low, mut high) = (blocks.ln(), MOST_BLOCKS.ln());
    for _ in 0..24 {
        let middle = (low + high) / 2.0;
        if seen(middle.exp()) < blocks {
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
    let mut rank = 1.0;
    while rank <= n {
        let (blocks, mean) = step(s, top, rank, n);
        rank += blocks;
        // P(X >= c) for c = 0, 1, ...; the accesses to X >= c sum to mean * P(X >= c - 1).
        let (mut equal, mut least) = ((-mean).exp(), 1.0f64);
        for (c, (at_least, accesses)) in total.iter_mut().enumerate().skip(1) {
            let before = least.max(0.0);
            least -= equal;
            equal *= mean / c as f64;
            *at_least += blocks * least.max(0.0);
            *accesses += blocks * mean * before;
        }
    }
    total
}

/// Kolmogorov-Smirnov distance of the accesses by rank from a law of `top` mean accesses to the hottest block.
fn distance(popularity: &Popularity, law: &PowerSums, top: f64) -> f64 {
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

// How accesses spread over items (mostly blocks), hottest first: the input of shares, curves and fits, counted
// completely or from a sample.

/// Items with an equal number of accesses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PopularityClass {
    pub count: u64,    // Accesses to each
    pub blocks: f64,   // The number of items; a fraction if estimated from a sample
    pub accesses: f64, // Accesses to all of them together; `count * blocks` unless estimated otherwise
}

/// Popularity: classes of strictly falling count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Popularity {
    pub classes: Vec<PopularityClass>, // Classes, hottest first
    pub blocks: f64,                   // Items accessed
    pub accesses: f64,                 // Accesses to them
}

/// Share of I/O that the hottest part of the blocks receives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, crate::JsonSchema)]
pub struct HotShare {
    /// Hottest fraction of the blocks, 0 to 1.
    pub fraction: f64,
    /// Share of the accesses that goes to it, 0 to 1.
    pub io_share: f64,
}

impl Popularity {
    /// From classes in any order; those without blocks or accesses are dropped, equals are joined.
    pub fn new(mut classes: Vec<PopularityClass>) -> Self {
        classes.retain(|class| class.count > 0 && class.blocks > 0.0 && class.accesses > 0.0);
        classes.sort_unstable_by_key(|class| std::cmp::Reverse(class.count));
        classes.dedup_by(|next, kept| {
            let same = next.count == kept.count;
            if same {
                kept.blocks += next.blocks;
                kept.accesses += next.accesses;
            }
            same
        });
        Self {
            blocks: classes.iter().map(|class| class.blocks).sum(),
            accesses: classes.iter().map(|class| class.accesses).sum(),
            classes,
        }
    }

    /// Share of the accesses (0..=1) to the hottest `fractions` of the items; `fractions` must ascend.
    pub fn shares(&self, fractions: &[f64]) -> Vec<HotShare> {
        let (mut above, mut sum) = (0.0, 0.0);
        let mut classes = self.classes.iter().peekable();
        let share = |&fraction: &f64| {
            let wanted = fraction.clamp(0.0, 1.0) * self.blocks;
            while let Some(class) = classes.next_if(|class| above + class.blocks <= wanted) {
                above += class.blocks;
                sum += class.accesses;
            }
            let part = classes.peek().map_or(0.0, |class| class.accesses * (wanted - above).max(0.0) / class.blocks);
            HotShare { fraction, io_share: ((sum + part) / self.accesses).clamp(0.0, 1.0) }
        };
        if self.classes.is_empty() {
            return Vec::new();
        }
        fractions.iter().map(share).collect()
    }

    /// At most `points` points of the curve of [`Self::shares`], dense at the hot end: fractions in geometric steps
    /// from one item to all.
    pub fn curve(&self, points: usize) -> Vec<HotShare> {
        let points = points.max(2);
        let lowest = (1.0 / self.blocks.max(1.0)).ln();
        let mut fractions: Vec<f64> =
            (0..points).map(|point| (lowest * (1.0 - point as f64 / (points - 1) as f64)).exp()).collect();
        fractions.dedup();
        self.shares(&fractions)
    }
}

#[cfg(test)]
mod tests;
