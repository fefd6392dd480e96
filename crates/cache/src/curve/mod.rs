//! Hit ratios by cache size, from one or two passes over a trace.

mod distances;
mod simulated;

use crate::bcache::{BcacheMode, Streams};
use crate::dm_cache::CacheMode;
use crate::policy::Geometry;
use crate::replay::{Op, Request};
use crate::smq::{SmqKernel, large_origin};
pub use distances::{DistanceSample, StackDistances};
use serde::Serialize;
use simulated::{LEAST_BCACHE, MINIATURE_BLOCKS};
pub use simulated::{OptSample, SimulatedCache, SimulatedPolicy, next_accesses, opt_hits};
use std::thread::JoinHandle;

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
    /// otherwise with 95 % confidence, over the samples, and of sampled LRU with one block of a sample more or less. With
    /// assumed rates or volumes, the lowest of their intervals, and `hit_ratio` is the mean. Equal to `hit_ratio` if that
    /// is exact.
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
    /// The points, by size; without those that the kernel refuses.
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
    /// Time from the first I/O to the last, in ns; `null` if the trace has no times that are of use.
    pub span_ns: Option<u64>,
    /// Unit of the trace's times in ns: I/Os of equal time were spread over it evenly. `null` if its times are fine.
    pub spread_ns: Option<u64>,
    /// Why the times are of no use, in words; otherwise `null`.
    pub useless_times: Option<String>,
    /// I/Os per second that were assumed because the times are of no use; otherwise empty.
    pub assumed_rates: Vec<f64>,
    /// Size of the volume in bytes, as given or recorded; `null` if unknown.
    pub volume_bytes: Option<u64>,
    /// Sizes of the volume in bytes that were assumed because its own is not known: up to the last sector that the trace
    /// touches, and one above which nothing changes. Empty if smq does not depend on it.
    pub assumed_volumes: Vec<u64>,
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
}

/// The point of several samples of one size.
pub fn combine(cache_bytes: u64, sampling_rate: f64, estimates: &[Estimate], interval: Interval) -> CurvePoint {
    let mean_of = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let ratio = |which: usize| mean_of(estimates.iter().filter_map(|estimate| estimate.ratios[which]).collect());
    let mean = ratio(2).unwrap_or(0.0);
    let all = || estimates.iter().filter_map(|estimate| estimate.ratios[2]);
    let half = match estimates.len() {
        0 | 1 => 0.0,
        count => {
            let squares: f64 = all().map(|value| (value - mean).powi(2)).sum();
            let means = 1.0 / count as f64 + f64::from(u8::from(interval == Interval::OfRun));
            STUDENT[(count - 2).min(6)] * (squares / (count - 1) as f64 * means).sqrt()
        }
    };
    CurvePoint {
        cache_bytes,
        hit_ratio: mean,
        read_hit_ratio: ratio(0),
        write_hit_ratio: ratio(1),
        low: (mean - half).max(0.0),
        high: (mean + half).min(1.0),
        sampling_rate,
        cache_writes: mean_of(estimates.iter().filter_map(|estimate| estimate.cache_writes).collect()),
    }
}

impl PolicyCurve {
    /// A curve with its knee: the point that is furthest above the line from the first to the last one, with sizes on a
    /// logarithmic scale (Satopää et al., "Finding a Kneedle in a haystack", 2011). Less than 5 percentage points is no knee.
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
/// Accesses that samples count at a time: enough for a thread.
const SHARED: usize = 1 << 16;
/// I/Os that a cache replays before the next cache does, so that it stays in the processor's cache.
const TOGETHER: usize = 8192;
/// Sectors of which dm-cache's chunks are multiples (`DATA_DEV_BLOCK_SIZE_MIN_SECTORS`).
const CHUNK_SECTORS: u64 = 64;
/// Powers of two in a default curve, less one.
const OCTAVES: u32 = 10;

/// What is computed.
#[derive(Clone, Debug)]
pub struct CurveSettings {
    pub policies: Vec<String>, // `lru`, `opt`, `smq`, `bcache`
    pub blocks: Vec<u64>,      // block sizes in bytes; those that dm-cache refuses have no points of smq
    pub sizes: Vec<u64>,       // cache sizes in bytes; empty: ten powers of two up to the footprint
    pub kernel: String,        // the kernel of smq
    pub writeback: bool,       // whether the caches write back, instead of through
    pub sample: Option<f64>,   // LRU from this share of the blocks; `None`: exactly
    pub samples: u64,          // how many samples are taken where one is needed
    pub volume: Option<u64>,   // size of the volume in bytes, if the user knows it
}

impl CurveSettings {
    /// Checks everything that needs no trace; an error is one line.
    pub fn check(&self) -> Result<SmqKernel, String> {
        for &block in &self.blocks {
            if !(4 << 10..=1 << 30).contains(&block) || block % (4 << 10) != 0 {
                return Err(format!("--block {}: expected a multiple of 4 KiB from 4 KiB to 1 GiB", shown(block)));
            }
            if let Some(&size) = self.sizes.iter().find(|&&size| !(1..=1 << 31).contains(&(size / block))) {
                let what = if size < block { "less than one block" } else { "more than 2^31 blocks" };
                let [size, block] = [size, block].map(shown);
                return Err(format!("--sizes {size}: {what} of {block}; give another size or --block"));
            }
        }
        if let Some(size) = self.sizes.iter().find(|&&size| size < LEAST_BCACHE)
            && self.wants("bcache")
        {
            let least = "the kernel refuses bcache with 512 buckets or fewer: give 256.5 MiB or more";
            return Err(format!("--sizes {}: {least}, or --policy smq --policy lru --policy opt", shown(*size)));
        }
        let unknown = || format!("--kernel {}: expected a version from 4.2 on, such as 6.1, or a commit", self.kernel);
        SmqKernel::parse(&self.kernel).ok_or_else(unknown)
    }

    fn wants(&self, policy: &str) -> bool {
        self.policies.iter().any(|wanted| wanted == policy)
    }
}

/// Chunks of a cache that is simulated in full at most: LVM's own limit is lower, and each takes memory.
const MOST_CHUNKS: u64 = 1 << 22;

fn shown(bytes: u64) -> String {
    let divides = |at: &usize| bytes > 0 && bytes.is_multiple_of(1 << (10 * at));
    let at = (1..5).take_while(divides).last().unwrap_or(0);
    format!("{} {}", bytes >> (10 * at), ["bytes", "KiB", "MiB", "GiB", "TiB"][at])
}

/// What is counted of the accesses to blocks.
#[derive(Default)]
struct BlockCounts {
    lru: StackDistances,
    opt: Vec<OptSample>,
    spare: Vec<(u64, bool)>, // memory for accesses that wait
}

impl BlockCounts {
    fn add(mut self, mut accesses: Vec<(u64, bool)>) -> Self {
        self.lru.access(&accesses);
        self.opt.iter_mut().for_each(|opt| accesses.iter().for_each(|&(block, write)| opt.access(block, write)));
        accesses.clear();
        self.spare = accesses;
        self
    }
}

/// Measures of one block size.
struct BlockPass {
    sectors: u64,
    shift: Option<u32>, // the power of two that `sectors` is
    counts: BlockCounts,
    counting: Option<JoinHandle<BlockCounts>>, // has `counts`, while further I/Os are read
    waiting: Vec<(u64, bool)>,                 // accesses to blocks, and whether they write
}

impl BlockPass {
    fn request(&mut self, request: &Request) {
        let write = request.op != Op::Read;
        let last = request.sector.saturating_add(u64::from(request.sectors) - 1);
        let block_of = |sector| self.shift.map_or_else(|| sector / self.sectors, |shift| sector >> shift);
        for block in block_of(request.sector)..=block_of(last) {
            self.waiting.push((block, write));
            if self.waiting.len() == SHARED {
                self.count_waiting();
            }
        }
    }

    /// Begins to count the accesses.
    fn count_waiting(&mut self) {
        self.end_count();
        let mut counts = std::mem::take(&mut self.counts);
        let waiting = std::mem::replace(&mut self.waiting, std::mem::take(&mut counts.spare));
        self.counting = Some(std::thread::spawn(move || counts.add(waiting)));
    }

    fn end_count(&mut self) {
        if let Some(counting) = self.counting.take() {
            self.counts = counting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    }

    fn footprint(&self) -> u64 {
        let samples = &self.counts.lru.samples;
        samples.iter().map(DistanceSample::distinct).sum::<u64>() / samples.len() as u64 * self.sectors * 512
    }

    fn accesses(&self) -> [u64; 2] {
        self.counts.lru.samples[0].counts.each_ref().map(|counts| counts.accesses)
    }

    /// What each sample of LRU finds for this many blocks; without a number, for endless ones.
    fn estimates(&self, blocks: Option<u64>) -> Vec<Estimate> {
        let estimate = |lru: &DistanceSample| {
            let both = Some(lru.hit_ratio(&[false, true], blocks));
            let ratio = |at: usize| (lru.counts[at].accesses > 0).then(|| lru.hit_ratio(&[at > 0], blocks));
            Estimate { ratios: [ratio(0), ratio(1), both], cache_writes: None }
        };
        self.counts.lru.samples.iter().map(estimate).collect()
    }
}

/// Times that are multiples of this, in ns, are coarse if I/Os share them: more than the 0.1 ms of a hit, which smq's
/// ticks take. Coarser ones than a second, smq's own, say nothing about it.
const COARSE_NS: [u64; 2] = [1_000_000, 1_000_000_000];
/// No volume serves ten million I/Os a second, unless they are fewer than this.
const BURST: u64 = 1000;

/// The times of a trace.
#[derive(Default)]
struct Times {
    first_ns: u64,
    span_ns: u64,
    distinct: u64,
    unit_ns: u64, // a divisor of all distances, the greatest unless it is fine; 0 for one time
}

impl Times {
    fn add(&mut self, time_ns: u64) {
        self.first_ns = if self.distinct == 0 { time_ns } else { self.first_ns };
        let mut distance = time_ns.saturating_sub(self.first_ns);
        let is_new = self.distinct == 0 || distance != self.span_ns;
        self.distinct += u64::from(self.distinct == 0 || distance > self.span_ns);
        self.span_ns = distance;
        while is_new && distance > 0 && (self.unit_ns == 0 || self.unit_ns >= COARSE_NS[0]) {
            (self.unit_ns, distance) = (distance, self.unit_ns % distance);
        }
    }

    /// The time over which I/Os of equal time are spread, 0 if they need not be; or why the times are of no use.
    fn judge(&self, requests: u64) -> Result<u64, String> {
        let per_ns = requests as f64 / self.span_ns as f64;
        match self.unit_ns {
            0 if requests > 1 => Err("all I/Os have the same time".into()),
            _ if requests >= BURST && per_ns > 0.01 => Err("more than 10,000,000 I/Os a second are no times".into()),
            unit if unit < COARSE_NS[0] || requests < 2 * self.distinct => Ok(0),
            unit if unit > COARSE_NS[1] => Err(format!("the times are multiples of {} s", unit as f64 / 1e9)),
            unit => Ok(unit),
        }
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
    times: Times,
    end_sector: u64,
}

impl FirstPass {
    /// Begins; an error is one line about the settings.
    pub fn new(settings: CurveSettings) -> Result<Self, String> {
        let kernel = settings.check()?;
        let samples = settings.samples.max(1);
        let lru = || StackDistances::new(settings.sample.unwrap_or(1.0), samples);
        let opt = || if settings.wants("opt") { (0..samples).map(OptSample::new).collect() } else { vec![] };
        let pass = |&bytes: &u64| BlockPass {
            sectors: bytes / 512,
            shift: (bytes / 512).is_power_of_two().then(|| (bytes / 512).ilog2()),
            counts: BlockCounts { lru: lru(), opt: opt(), spare: vec![] },
            counting: None,
            waiting: vec![],
        };
        let blocks = settings.blocks.iter().map(pass).collect();
        let times = Times::default();
        Ok(Self { settings, kernel, blocks, requests: 0, reads: 0, bytes: [0; 2], times, end_sector: 0 })
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
        self.times.add(request.time_ns);
        self.end_sector = self.end_sector.max(request.sector.saturating_add(u64::from(request.sectors)));
        self.blocks.iter_mut().for_each(|block| block.request(request));
    }

    /// Whether the trace must be read again.
    pub fn needs_second_pass(&self) -> bool {
        self.requests > 0 && (self.settings.wants("smq") || self.settings.wants("bcache"))
    }

    /// Goes on to the second pass; `has_times`: the trace has times; `recorded`: the volume's size in bytes, if the trace
    /// says it. An error is one line about the settings.
    pub fn finish(mut self, has_times: bool, recorded: Option<u64>) -> Result<SecondPass, String> {
        self.blocks.iter_mut().for_each(|block| {
            block.count_waiting();
            block.end_count();
        });
        let touched = self.end_sector.saturating_mul(512);
        if let Some(volume) = self.settings.volume.filter(|&volume| volume < touched) {
            let [volume, touched] = [volume, touched].map(shown);
            return Err(format!("--volume-size {volume}: expected {touched} or more: the trace reaches so far"));
        }
        self.settings.volume = self.settings.volume.or(recorded.filter(|&bytes| bytes >= touched));
        let times = if has_times { self.times.judge(self.requests) } else { Err("the trace has no times".into()) };
        let sizes = if self.settings.sizes.is_empty() { self.default_sizes() } else { self.settings.sizes.clone() };
        for (block, &size) in self.blocks.iter().flat_map(|block| sizes.iter().map(move |size| (block, size))) {
            let chunks = size / block.sectors / 512;
            if self.settings.wants("smq") && chunks > MOST_CHUNKS && block.footprint() < size / 2 {
                let [size, chunk, used] = [size, block.sectors * 512, block.footprint()].map(shown);
                return Err(format!(
                    "--sizes {size}: {chunks} chunks of {chunk}, and the trace touches only {used}: give less"
                ));
            }
        }
        let (mut caches, mut largest) = (Vec::new(), 0);
        let rates: Vec<Option<f64>> =
            if times.is_ok() { vec![None] } else { ASSUMED_RATES.iter().copied().map(Some).collect() };
        let (cache, bcache) = match self.settings.writeback {
            true => (CacheMode::Writeback, BcacheMode::Writeback),
            false => (CacheMode::Writethrough, BcacheMode::Writethrough),
        };
        let all = [("smq", SimulatedPolicy::Smq(self.kernel, cache)), ("bcache", SimulatedPolicy::Bcache(bcache))];
        for (name, policy) in all.into_iter().filter(|(name, _)| self.settings.wants(name)) {
            for (index, block) in self.blocks.iter().enumerate() {
                let refused = name == "smq" && block.sectors % CHUNK_SECTORS != 0;
                for &size in sizes.iter().filter(|_| !refused) {
                    let geometries = self.geometries(block.sectors, size);
                    let geometries = if name == "smq" { &geometries[..] } else { &geometries[..1] };
                    let large = geometries[1..].iter().map(|large| large.origin_blocks * block.sectors * 512);
                    largest = large.fold(largest, u64::max);
                    for (rate, geometry) in rates.iter().flat_map(|&rate| geometries.iter().map(move |&of| (rate, of)))
                    {
                        let assumption = (rate, geometry.origin_blocks);
                        for salt in 0..self.settings.samples.max(1) {
                            // A size that bcache refuses has no point.
                            let cache =
                                SimulatedCache::new(policy, geometry, size, block.footprint(), salt, MINIATURE_BLOCKS);
                            let Some(cache) = cache else { break };
                            let is_exact = cache.rate >= 1.0 && name != "smq";
                            caches.push(Miniature { name, block: index, size, assumption, cache });
                            if is_exact {
                                break;
                            }
                        }
                    }
                }
            }
        }
        let assumed_volumes = if largest > 0 { vec![touched, largest] } else { vec![] };
        let (streams, waiting) = (Streams::default(), vec![]);
        Ok(SecondPass { first: self, sizes, times, caches, assumed_volumes, streams, waiting, number: 0 })
    }

    /// The cache and its volume. If the volume's size is not known and smq depends on it, there are two: one that ends
    /// with the last sector that the trace touches, and one so large that more changes nothing.
    fn geometries(&self, sectors: u64, size: u64) -> Vec<Geometry> {
        let cache_blocks = u32::try_from(size / sectors / 512).unwrap_or(u32::MAX);
        let least = self.settings.volume.map_or(self.end_sector, |bytes| bytes.div_ceil(512)).div_ceil(sectors);
        let known = Geometry { origin_blocks: least, cache_blocks, block_sectors: sectors as u32 };
        let large = Geometry { origin_blocks: large_origin(known), ..known };
        if self.settings.volume.is_some() || large.origin_blocks <= least { vec![known] } else { vec![known, large] }
    }

    /// Powers of two up to the footprint, not below 16 blocks; of bcache alone not below what the kernel takes.
    fn default_sizes(&self) -> Vec<u64> {
        let footprint = self.blocks.iter().map(BlockPass::footprint).max().unwrap_or(0);
        let largest_block = self.settings.blocks.iter().copied().max().unwrap_or(1);
        let only_bcache = self.settings.policies.iter().all(|policy| policy == "bcache");
        let least = if only_bcache { LEAST_BCACHE } else { largest_block * 16 };
        let last = footprint.max(least).next_power_of_two();
        let sizes = (0..=OCTAVES).rev().map(|octave| last >> octave);
        sizes.filter(|&size| size >= least).collect()
    }
}

struct Miniature {
    name: &'static str,
    block: usize,
    size: u64,
    assumption: (Option<f64>, u64), // the rate, without times, and the blocks of the volume
    cache: SimulatedCache,
}

/// The second pass.
pub struct SecondPass {
    first: FirstPass,
    sizes: Vec<u64>,
    times: Result<u64, String>, // in ns, over which I/Os of equal time are spread; or why times are of no use
    caches: Vec<Miniature>,
    assumed_volumes: Vec<u64>,
    streams: Streams,
    waiting: Vec<(Request, u64)>, // I/Os, and the sectors of their streams
    number: u64,                  // I/Os that were replayed
}

impl SecondPass {
    /// Replays an I/O.
    pub fn request(&mut self, request: &Request) {
        let streams = self.first.settings.wants("bcache") && matches!(request.op, Op::Read | Op::Write { .. });
        let Request { sector, sectors, task, .. } = *request;
        let time_ns = request.time_ns.saturating_sub(self.first.times.first_ns); // smq's phases are those of the beginning
        // I/Os of equal time are spread together.
        let spread = matches!(self.times, Ok(1..)) && self.waiting.last().is_some_and(|last| last.0.time_ns == time_ns);
        if self.waiting.len() >= TOGETHER && !spread {
            self.replay_waiting();
        }
        let sequential = if streams { self.streams.add(time_ns, task, sector, sectors) } else { 0 };
        self.waiting.push((Request { time_ns, ..*request }, sequential));
    }

    fn replay_waiting(&mut self) {
        if let Ok(unit @ 1..) = self.times {
            for alike in self.waiting.chunk_by_mut(|(one, _), (next, _)| one.time_ns == next.time_ns) {
                let count = alike.len() as u64;
                alike.iter_mut().zip(0..).for_each(|((request, _), index)| request.time_ns += unit * index / count);
            }
        }
        for miniature in &mut self.caches {
            for (&(request, sequential), number) in self.waiting.iter().zip(self.number..) {
                let time_ns =
                    miniature.assumption.0.map_or(request.time_ns, |rate| (number as f64 * 1e9 / rate) as u64);
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
            span_ns: self.times.is_ok().then_some(first.times.span_ns),
            spread_ns: self.times.clone().ok().filter(|&unit| unit > 0),
            useless_times: self.times.clone().err(),
            assumed_rates: if self.times.is_ok() { vec![] } else { ASSUMED_RATES.to_vec() },
            volume_bytes: first.settings.volume,
            assumed_volumes: self.assumed_volumes.clone(),
            kernel: first.settings.kernel.clone(),
            blocks: (0..first.blocks.len()).map(|index| self.block_curves(index)).collect(),
        }
    }

    fn block_curves(&self, index: usize) -> BlockCurves {
        let (block, settings) = (&self.first.blocks[index], &self.first.settings);
        let whole = combine(0, 1.0, &block.estimates(None), Interval::OfMean);
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
        let lru = &block.counts.lru;
        let point = |&size: &u64| {
            let (blocks, rate) = (size / (block.sectors * 512), lru.samples[0].rate);
            // A sample knows distances only to one of its blocks.
            let apart = if rate < 1.0 { (1.0 / rate).ceil() as u64 } else { 0 };
            let [less, mean, more] = [blocks.saturating_sub(apart), blocks, blocks.saturating_add(apart)]
                .map(|blocks| combine(size, rate, &block.estimates(Some(blocks)), Interval::OfMean));
            CurvePoint { low: less.low.min(mean.low), high: more.high.max(mean.high), ..mean }
        };
        PolicyCurve::new("lru", self.sizes.iter().map(point).collect(), lru.memory_bytes())
    }

    fn opt_curve(&self, block: &BlockPass) -> PolicyCurve {
        let blocks: Vec<u64> = self.sizes.iter().map(|size| size / (block.sectors * 512)).collect();
        let rate = block.counts.opt[0].sampler.rate();
        // A sample that is the whole trace needs no other.
        let samples = if rate >= 1.0 { &block.counts.opt[..1] } else { &block.counts.opt[..] };
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
        let interval = if name == "smq" { Interval::OfRun } else { Interval::OfMean };
        let accesses = if name == "bcache" { [first.reads, 0] } else { block.accesses() };
        let point = |&size: &u64| -> Option<CurvePoint> {
            let of_size: Vec<&Miniature> = mine().filter(|cache| cache.size == size).collect();
            let estimate = |m: &&Miniature| m.cache.estimate(accesses, sectors, block.sectors as u32);
            let rate = of_size.first()?.cache.rate;
            let of = |some: &[&_]| combine(size, rate, &some.iter().map(estimate).collect::<Vec<_>>(), interval);
            // What is not known gives a band: the intervals of all assumptions.
            let assumed = of_size.chunk_by(|one, next| one.assumption == next.assumption).map(of);
            let wider = |(low, high): (f64, f64), point: CurvePoint| (point.low.min(low), point.high.max(high));
            let (low, high) = assumed.fold((1.0, 0.0), wider);
            Some(CurvePoint { low, high, ..of(&of_size) })
        };
        let memory = mine().map(|miniature| miniature.cache.memory_bytes()).sum();
        PolicyCurve::new(name, self.sizes.iter().filter_map(point).collect(), memory)
    }
}
