//! Hit ratios by cache size, from one or two passes over a trace.

mod build;
mod distances;
mod simulated;

pub use build::{CurveSettings, FirstPass, SecondPass};
pub use distances::StackDistances;
use serde::Serialize;
pub use simulated::{OptSample, SimulatedCache, SimulatedPolicy, next_accesses, opt_hits};

/// One size of a curve. Ratios are shares of block accesses, or of reads with `bcache`.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct CurvePoint {
    /// Size of the cache in bytes.
    pub cache_bytes: u64,
    /// Hit ratio, 0 to 1: the mean of the samples.
    pub hit_ratio: f64,
    /// Hit ratio of reads, 0 to 1; `null` without reads.
    pub read_hit_ratio: Option<f64>,
    /// Hit ratio of writes, 0 to 1; `null` without writes, or if the policy does not count them.
    pub write_hit_ratio: Option<f64>,
    /// Lower end of the interval of `hit_ratio`: of smq, what 95 % of runs have, which differ by the phase of its clock;
    /// otherwise with 95 % confidence, over the samples; with assumed rates, the lowest ratio of a rate. Equal to
    /// `hit_ratio` if that is exact.
    pub low: f64,
    /// Upper end of the interval, as `low`.
    pub high: f64,
    /// Share of the blocks that was simulated, 0 to 1.
    pub sampling_rate: f64,
    /// Bytes written to the cache for each byte of the trace; `null` if the policy does not decide it.
    pub cache_writes: Option<f64>,
}

/// The curve of a policy.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct PolicyCurve {
    /// Name of the policy: `lru`, `opt`, `smq` or `bcache`.
    pub policy: String,
    /// The points, by size.
    pub points: Vec<CurvePoint>,
    /// Size of the cache in bytes after which more cache gains least; `null` if no size stands out.
    pub knee_bytes: Option<u64>,
    /// The largest half-width of an interval from `low` to `high`; 0: exact.
    pub error: f64,
    /// Memory of the simulation in bytes.
    pub memory_bytes: u64,
}

/// The curves of one block size.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct BlockCurves {
    /// Block size in bytes.
    pub block_bytes: u64,
    /// Number of accesses, after I/Os were split at block borders.
    pub accesses: u64,
    /// Bytes of all blocks that were accessed.
    pub footprint_bytes: u64,
    /// Share of the accesses that are the first to their block, 0 to 1: no cache that starts empty serves them.
    pub first_touch_ratio: f64,
    /// Share of the reads that are the first access to their block, 0 to 1; `null` without reads.
    pub read_first_touch_ratio: Option<f64>,
    /// Share of the writes that are the first access to their block, 0 to 1; `null` without writes.
    pub write_first_touch_ratio: Option<f64>,
    /// A curve for each policy.
    pub curves: Vec<PolicyCurve>,
}

/// Hit ratios of a trace by size of the cache.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct CacheCurves {
    /// Reads and writes of the trace.
    pub requests: u64,
    /// Reads of the trace.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time from the first I/O to the last, in ns; `null` if the trace has no times.
    pub span_ns: Option<u64>,
    /// I/Os per second that were assumed because the trace has no times; otherwise empty.
    pub assumed_rates: Vec<f64>,
    /// Version or commit of the kernel whose smq was simulated.
    pub kernel: String,
    /// The curves by block size.
    pub blocks: Vec<BlockCurves>,
}

/// What one sample found for a size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Estimate {
    pub ratios: [Option<f64>; 3],  // reads, writes, and both
    pub cache_writes: Option<f64>, // bytes written to the cache for each byte of the trace
}

/// Two-sided 95 % quantiles of Student's distribution for 1 to 7 degrees of freedom.
const STUDENT: [f64; 7] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365];

/// What the interval of a point holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    OfMean, // the mean of endless samples
    OfRun,  // what one more sample finds
    Band,   // the samples: they are not alike, and bound the figure
}

/// The point of several samples of one size.
pub fn combine(cache_bytes: u64, sampling_rate: f64, estimates: &[Estimate], interval: Interval) -> CurvePoint {
    let mean_of = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let ratio = |which: usize| mean_of(estimates.iter().filter_map(|estimate| estimate.ratios[which]).collect());
    let mean = ratio(2).unwrap_or(0.0);
    let all = || estimates.iter().filter_map(|estimate| estimate.ratios[2]);
    let (least, most) = all().fold((mean, mean), |(low, high), value| (value.min(low), value.max(high)));
    let half = match estimates.len() {
        0 | 1 => 0.0,
        count => {
            let squares: f64 = all().map(|value| (value - mean).powi(2)).sum();
            let means = 1.0 / count as f64 + f64::from(u8::from(interval == Interval::OfRun));
            STUDENT[(count - 2).min(6)] * (squares / (count - 1) as f64 * means).sqrt()
        }
    };
    let (low, high) =
        if interval == Interval::Band { (least, most) } else { ((mean - half).max(0.0), (mean + half).min(1.0)) };
    CurvePoint {
        cache_bytes,
        hit_ratio: mean,
        read_hit_ratio: ratio(0),
        write_hit_ratio: ratio(1),
        low,
        high,
        sampling_rate,
        cache_writes: mean_of(estimates.iter().filter_map(|estimate| estimate.cache_writes).collect()),
    }
}

impl PolicyCurve {
    /// A curve with its knee: the point that is furthest above the line from the first to the last one, with sizes on a
    /// logarithmic scale (Satopää et al., "Finding a Kneedle in a haystack", 2011). Less than 5 points is no knee.
    pub fn new(policy: &str, points: Vec<CurvePoint>, memory_bytes: usize) -> Self {
        let error = points.iter().map(|point| (point.high - point.low) / 2.0).fold(0.0, f64::max);
        let knee_bytes = find_knee(&points);
        Self { policy: policy.to_owned(), points, knee_bytes, error, memory_bytes: memory_bytes as u64 }
    }
}

fn find_knee(points: &[CurvePoint]) -> Option<u64> {
    let (first, last) = (points.first()?, points.last()?);
    let log = |point: &CurvePoint| (point.cache_bytes.max(1) as f64).log2();
    let (width, height) = (log(last) - log(first), last.hit_ratio - first.hit_ratio);
    let above = |point: &CurvePoint| point.hit_ratio - first.hit_ratio - height * (log(point) - log(first)) / width;
    let knee = points.iter().max_by(|a, b| above(a).total_cmp(&above(b)))?;
    (width > 0.0 && above(knee) >= 0.05).then_some(knee.cache_bytes)
}
