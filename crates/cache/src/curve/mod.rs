//! Hit ratios by cache size, from one or two passes over a trace.

mod distances;
mod simulated;

use crate::bcache::{BcacheMode, Streams};
use crate::dm_cache::CacheMode;
use crate::policy::Geometry;
use crate::replay::{Op, Request};
use crate::sampler::Sampler;
use crate::smq::SmqKernel;
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

// The two passes over a trace that make its curves: the first measures the trace and LRU, the second simulates.

/// Rates that bound smq's figures if the trace has no times, in I/Os a second: a disk's, and an SSD's.
const ASSUMED_RATES: [f64; 2] = [100.0, 10_000.0];
/// I/Os that a cache replays before the next cache does, so that it stays in the processor's cache.
const TOGETHER: usize = 8192;
/// Powers of two in a default curve, less one.
const OCTAVES: u32 = 10;

/// What is computed.
#[derive(Clone, Debug)]
pub struct CurveSettings {
    pub policies: Vec<String>,        // `lru`, `opt`, `smq`, `bcache`
    pub block_bytes: Vec<u64>,        // block sizes in bytes
    pub sizes: Vec<u64>,              // cache sizes in bytes; empty: ten powers of two up to the footprint
    pub kernel: String,               // the kernel of smq
    pub writeback: bool,              // whether the caches write back, instead of through
    pub sample: Option<f64>,          // LRU from this share of the blocks; `None`: exactly
    pub sample_blocks: Option<usize>, // LRU from this many blocks at most
    pub samples: u64,                 // how many samples are taken where one is needed
}

impl CurveSettings {
    /// Checks everything that needs no trace; an error is one line.
    pub fn check(&self) -> Result<SmqKernel, String> {
        for &block in &self.block_bytes {
            if !(32 << 10..=1 << 30).contains(&block) || block % (32 << 10) != 0 {
                let (found, expected) = (kib(block), "a multiple of 32 KiB from 32 KiB to 1 GiB, as dm-cache does");
                return Err(format!("--block {found}: expected {expected}"));
            }
            let small = self.sizes.iter().find(|&&size| size < block).map(|&size| (size, "less than one block"));
            let large =
                self.sizes.iter().find(|&&size| size / block > 1 << 31).map(|&size| (size, "more than 2^31 blocks"));
            if let Some((size, what)) = small.or(large) {
                return Err(format!("--sizes {}: {what} of {}; give another size or --block", kib(size), kib(block)));
            }
        }
        if let Some(size) = self.sizes.iter().find(|&&size| size < 64 << 20)
            && self.wants("bcache")
        {
            return Err(format!("--sizes {}: bcache needs 64 MiB or more (128 buckets of 512 KiB)", kib(*size)));
        }
        let unknown = || format!("--kernel {}: expected a version from 4.2 on, such as 6.1, or a commit", self.kernel);
        SmqKernel::parse(&self.kernel).ok_or_else(unknown)
    }

    fn wants(&self, policy: &str) -> bool {
        self.policies.iter().any(|wanted| wanted == policy)
    }
}

fn kib(bytes: u64) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} bytes") }
}

/// Measures of one block size.
struct BlockPass {
    sectors: u64,
    lru: Vec<StackDistances>,
    opt: Vec<OptSample>,
}

impl BlockPass {
    fn access(&mut self, request: &Request) {
        let write = request.op != Op::Read;
        let last = request.sector.saturating_add(u64::from(request.sectors) - 1) / self.sectors;
        for block in request.sector / self.sectors..=last {
            self.lru.iter_mut().for_each(|lru| lru.access(block, write));
            self.opt.iter_mut().for_each(|opt| opt.access(block, write));
        }
    }

    fn footprint(&self) -> u64 {
        let distinct: u64 = self.lru.iter().map(StackDistances::distinct).sum();
        distinct / self.lru.len() as u64 * self.sectors * 512
    }

    fn accesses(&self) -> [u64; 2] {
        [self.lru[0].counts[0].accesses, self.lru[0].counts[1].accesses]
    }

    /// A ratio of one direction: `None` without its accesses.
    fn ratio(lru: &StackDistances, write: bool, blocks: Option<u64>) -> Option<f64> {
        (lru.counts[usize::from(write)].accesses > 0).then(|| lru.hit_ratio(&[write], blocks))
    }

    fn estimate(lru: &StackDistances, blocks: Option<u64>) -> Estimate {
        let both = Some(lru.hit_ratio(&[false, true], blocks));
        Estimate { ratios: [Self::ratio(lru, false, blocks), Self::ratio(lru, true, blocks), both], cache_writes: None }
    }
}

/// The first pass.
pub struct FirstPass {
    settings: CurveSettings,
    kernel: SmqKernel,
    blocks: Vec<BlockPass>,
    requests: u64,
    reads: u64,
    bytes: [u64; 2],
    first_ns: u64,
    last_ns: u64,
    end_sector: u64,
}

impl FirstPass {
    /// Begins; an error is one line about the settings.
    pub fn new(settings: CurveSettings) -> Result<Self, String> {
        let kernel = settings.check()?;
        let salts = || 0..settings.samples.max(1);
        let lru = || -> Vec<StackDistances> {
            match (settings.sample, settings.sample_blocks) {
                (None, None) => vec![StackDistances::new(Sampler::ALL, None)],
                (rate, most) => {
                    salts().map(|salt| StackDistances::new(Sampler::new(salt, rate.unwrap_or(1.0), 0), most)).collect()
                }
            }
        };
        let opt = || if settings.wants("opt") { salts().map(OptSample::new).collect() } else { vec![] };
        let pass = |&bytes: &u64| BlockPass { sectors: bytes / 512, lru: lru(), opt: opt() };
        let blocks = settings.block_bytes.iter().map(pass).collect();
        let (first_ns, last_ns) = (u64::MAX, 0);
        Ok(Self { settings, kernel, blocks, requests: 0, reads: 0, bytes: [0; 2], first_ns, last_ns, end_sector: 0 })
    }

    /// Counts an I/O.
    pub fn request(&mut self, request: &Request) {
        let write = match request.op {
            Op::Read => false,
            Op::Write { .. } => true,
            Op::Discard | Op::Flush => return,
        };
        self.requests += 1;
        self.reads += u64::from(!write);
        self.bytes[usize::from(write)] += u64::from(request.sectors) * 512;
        self.first_ns = self.first_ns.min(request.time_ns);
        self.last_ns = self.last_ns.max(request.time_ns);
        self.end_sector = self.end_sector.max(request.sector.saturating_add(u64::from(request.sectors)));
        self.blocks.iter_mut().for_each(|block| block.access(request));
    }

    /// Whether the trace must be read again.
    pub fn needs_second_pass(&self) -> bool {
        self.requests > 0 && (self.settings.wants("smq") || self.settings.wants("bcache"))
    }

    /// Goes on to the second pass; `has_times`: the trace has times.
    pub fn finish(self, has_times: bool) -> SecondPass {
        let sizes = if self.settings.sizes.is_empty() { self.default_sizes() } else { self.settings.sizes.clone() };
        let mut caches = Vec::new();
        let rates: Vec<Option<f64>> =
            if has_times { vec![None] } else { ASSUMED_RATES.iter().copied().map(Some).collect() };
        for (name, policy) in self.simulated_policies() {
            for (index, block) in self.blocks.iter().enumerate() {
                for &size in &sizes {
                    let geometry = Geometry {
                        origin_blocks: self.end_sector.div_ceil(block.sectors),
                        cache_blocks: u32::try_from(size / block.sectors / 512).unwrap_or(u32::MAX),
                        block_sectors: block.sectors as u32,
                    };
                    for &rate in &rates {
                        for salt in 0..self.settings.samples.max(1) {
                            // A size that bcache refuses has no point.
                            let cache = SimulatedCache::new(policy, geometry, size, block.footprint(), salt);
                            let Some(cache) = cache else { break };
                            let is_exact = cache.rate >= 1.0 && name != "smq";
                            caches.push(Miniature { name, block: index, size, rate, cache });
                            if is_exact {
                                break;
                            }
                        }
                    }
                }
            }
        }
        SecondPass { first: self, sizes, has_times, caches, streams: Streams::default(), waiting: vec![], number: 0 }
    }

    fn simulated_policies(&self) -> Vec<(&'static str, SimulatedPolicy)> {
        let (cache, bcache) = if self.settings.writeback {
            (CacheMode::Writeback, BcacheMode::Writeback)
        } else {
            (CacheMode::Writethrough, BcacheMode::Writethrough)
        };
        let all = [("smq", SimulatedPolicy::Smq(self.kernel, cache)), ("bcache", SimulatedPolicy::Bcache(bcache))];
        all.into_iter().filter(|(name, _)| self.settings.wants(name)).collect()
    }

    /// Powers of two up to the footprint, not below 16 blocks.
    fn default_sizes(&self) -> Vec<u64> {
        let footprint = self.blocks.iter().map(BlockPass::footprint).max().unwrap_or(0);
        let largest_block = self.settings.block_bytes.iter().copied().max().unwrap_or(1);
        let last = footprint.max(largest_block * 16).next_power_of_two();
        let sizes = (0..=OCTAVES).rev().map(|octave| last >> octave);
        sizes.filter(|&size| size >= largest_block * 16).collect()
    }
}

struct Miniature {
    name: &'static str,
    block: usize,
    size: u64,
    rate: Option<f64>, // the assumed rate, without times
    cache: SimulatedCache,
}

/// The second pass.
pub struct SecondPass {
    first: FirstPass,
    sizes: Vec<u64>,
    has_times: bool,
    caches: Vec<Miniature>,
    streams: Streams,
    waiting: Vec<(Request, u64)>, // I/Os, and the sectors of their streams
    number: u64,                  // I/Os that were replayed
}

impl SecondPass {
    /// Replays an I/O.
    pub fn request(&mut self, request: &Request) {
        let streams = self.first.settings.wants("bcache") && matches!(request.op, Op::Read | Op::Write { .. });
        let Request { time_ns, sector, sectors, task, .. } = *request;
        self.waiting.push((*request, if streams { self.streams.add(time_ns, task, sector, sectors) } else { 0 }));
        if self.waiting.len() == TOGETHER {
            self.replay_waiting();
        }
    }

    fn replay_waiting(&mut self) {
        for miniature in &mut self.caches {
            for (&(request, sequential), number) in self.waiting.iter().zip(self.number..) {
                let time_ns = miniature.rate.map_or(request.time_ns, |rate| (number as f64 * 1e9 / rate) as u64);
                miniature.cache.request(&Request { time_ns, ..request }, sequential);
            }
        }
        self.number += self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// All curves.
    pub fn finish(mut self) -> CacheCurves {
        self.replay_waiting();
        let first = &self.first;
        CacheCurves {
            requests: first.requests,
            reads: first.reads,
            read_bytes: first.bytes[0],
            write_bytes: first.bytes[1],
            span_ns: self.has_times.then(|| first.last_ns.saturating_sub(first.first_ns)),
            assumed_rates: if self.has_times { vec![] } else { ASSUMED_RATES.to_vec() },
            kernel: first.settings.kernel.clone(),
            blocks: (0..first.blocks.len()).map(|index| self.block_curves(index)).collect(),
        }
    }

    fn block_curves(&self, index: usize) -> BlockCurves {
        let (block, settings) = (&self.first.blocks[index], &self.first.settings);
        let whole = combine(
            0,
            1.0,
            &block.lru.iter().map(|lru| BlockPass::estimate(lru, None)).collect::<Vec<_>>(),
            Interval::OfMean,
        );
        let curves = settings.policies.iter().map(|policy| match policy.as_str() {
            "lru" => self.lru_curve(block),
            "opt" => self.opt_curve(block),
            name => self.simulated_curve(name, index),
        });
        BlockCurves {
            block_bytes: block.sectors * 512,
            accesses: block.accesses().iter().sum(),
            footprint_bytes: block.footprint(),
            first_touch_ratio: 1.0 - whole.hit_ratio,
            read_first_touch_ratio: whole.read_hit_ratio.map(|ratio| 1.0 - ratio),
            write_first_touch_ratio: whole.write_hit_ratio.map(|ratio| 1.0 - ratio),
            curves: curves.collect(),
        }
    }

    fn lru_curve(&self, block: &BlockPass) -> PolicyCurve {
        let point = |&size: &u64| {
            let estimate = |lru: &StackDistances| BlockPass::estimate(lru, Some(size / (block.sectors * 512)));
            combine(size, block.lru[0].rate(), &block.lru.iter().map(estimate).collect::<Vec<_>>(), Interval::OfMean)
        };
        let memory = block.lru.iter().map(StackDistances::memory_bytes).sum();
        PolicyCurve::new("lru", self.sizes.iter().map(point).collect(), memory)
    }

    fn opt_curve(&self, block: &BlockPass) -> PolicyCurve {
        let blocks: Vec<u64> = self.sizes.iter().map(|size| size / (block.sectors * 512)).collect();
        let rate = block.opt[0].rate;
        // A sample that is the whole trace needs no other.
        let samples = if rate >= 1.0 { &block.opt[..1] } else { &block.opt[..] };
        let estimates: Vec<Vec<Estimate>> = samples.iter().map(|opt| opt.estimate(&blocks)).collect();
        let of_size = |at: usize| estimates.iter().map(|sizes| sizes[at]).collect::<Vec<_>>();
        let points =
            self.sizes.iter().enumerate().map(|(at, &size)| combine(size, rate, &of_size(at), Interval::OfMean));
        PolicyCurve::new("opt", points.collect(), samples.iter().map(OptSample::memory_bytes).sum())
    }

    fn simulated_curve(&self, name: &str, index: usize) -> PolicyCurve {
        let (block, first) = (&self.first.blocks[index], &self.first);
        let mine = || self.caches.iter().filter(|cache| cache.name == name && cache.block == index);
        let sectors = (first.bytes[0] + first.bytes[1]) / 512;
        let of_samples = if name == "smq" { Interval::OfRun } else { Interval::OfMean };
        let interval = if self.has_times { of_samples } else { Interval::Band };
        let accesses = if name == "bcache" { [first.reads, 0] } else { block.accesses() };
        let point = |&size: &u64| -> Option<CurvePoint> {
            let of_size: Vec<&Miniature> = mine().filter(|cache| cache.size == size).collect();
            let estimate = |m: &&Miniature| m.cache.estimate(accesses, sectors, block.sectors as u32);
            let estimates: Vec<Estimate> = of_size.iter().map(estimate).collect();
            let rate = of_size.first()?.cache.rate;
            Some(combine(size, rate, &estimates, interval))
        };
        let memory = mine().map(|miniature| miniature.cache.memory_bytes()).sum();
        PolicyCurve::new(name, self.sizes.iter().filter_map(point).collect(), memory)
    }
}
