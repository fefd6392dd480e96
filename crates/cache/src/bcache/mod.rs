//! bcache (`drivers/md/bcache`, 6.12): what is cached, bypassed, invalidated and written back.
//!
//! The index has pages of 4 KiB instead of the kernel's keys of any length: a smaller I/O counts as its whole page.
//! Left out: more writeback for fragmented buckets (5.12), partial stripes, and the journal, which moves no cached data.

mod buckets;

use crate::entry::{Entry, List};
use crate::replay::{Counts, Op, Replay, Request};
use crate::sampler::Sampler;
use blklab_stats::{Hashing, hash64};
pub use buckets::{Buckets, Place};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Sectors of a page.
pub const PAGE_SECTORS: u64 = 8;
/// Percent of the buckets in use above which nothing is added, and synchronous and other writes are not dirty
/// (`CUTOFF_CACHE_ADD`, `BCH_CUTOFF_WRITEBACK_SYNC`, `BCH_CUTOFF_WRITEBACK`).
const CUTOFFS: [u32; 3] = [95, 70, 40];

/// What a bcache does with writes, and whether it caches reads; the names are those of `cache_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BcacheMode {
    /// A write goes to the cache and to the backing device.
    #[default]
    Writethrough,
    /// A write goes to the cache, and later to the backing device.
    Writeback,
    /// A write goes to the backing device.
    Writearound,
    /// Nothing is cached.
    None,
}

/// A cache, with the names of make-bcache and sysfs.
#[derive(Clone, Copy, Debug)]
pub struct BcacheSettings {
    pub buckets: u32,           // buckets of the cache device
    pub bucket_sectors: u32,    // sectors of a bucket (make-bcache: 512 KiB)
    pub mode: BcacheMode,       // `cache_mode`
    pub sequential_cutoff: u64, // `sequential_cutoff` in sectors; 0: none
    pub writeback_percent: u64, // `writeback_percent`
    pub block_sectors: u64,     // sectors of the block size; other I/O bypasses
    pub seed: u64,              // the seed of the random part of the congestion's cutoff
}

impl Default for BcacheSettings {
    fn default() -> Self {
        Self {
            buckets: 1024,
            bucket_sectors: 1024,
            mode: BcacheMode::default(),
            sequential_cutoff: 8192,
            writeback_percent: 10,
            block_sectors: 1,
            seed: 0,
        }
    }
}

/// A cached page.
#[derive(Clone, Copy, Debug)]
struct Page {
    place: Place,
    dirty: bool,
}

/// The cache.
pub struct Bcache {
    settings: BcacheSettings,
    buckets: Buckets,
    streams: Streams,
    pub congestion: Congestion, // how congested the cache device is
    pages: HashMap<u64, Page, Hashing>,
    dirty: BTreeSet<u64>,
    controller: Controller,
    cursor: u64, // writeback continues here
    last_io_ns: u64,
    sampler: Sampler,
    pub(crate) counts: Counts,
}

impl Default for Bcache {
    fn default() -> Self {
        Self::new(BcacheSettings::default())
    }
}

impl Bcache {
    /// An empty cache.
    pub fn new(settings: BcacheSettings) -> Self {
        let buckets = Buckets::new(settings.buckets, settings.bucket_sectors);
        Self {
            settings,
            controller: Controller::new(buckets.capacity() * settings.writeback_percent / 100),
            buckets,
            streams: Streams::default(),
            congestion: Congestion::new(settings.seed),
            pages: HashMap::default(),
            dirty: BTreeSet::new(),
            cursor: 0,
            last_io_ns: 0,
            sampler: Sampler::ALL,
            counts: Counts::default(),
        }
    }

    /// Caches only the regions that the sampler takes.
    pub fn sampled(self, sampler: Sampler) -> Self {
        Self { sampler, ..self }
    }

    /// Whether the I/O bypasses the cache, and why; counts it as part of its stream.
    pub fn check_bypass(&mut self, request: &Request) -> Option<Bypass> {
        self.check_request(request).or_else(|| {
            let congested = self.congestion.cutoff(request.time_ns);
            if congested.is_none() && self.settings.sequential_cutoff == 0 {
                return None;
            }
            let streams = &mut self.streams;
            let sequential = streams.add(request.time_ns, request.task, request.sector, request.sectors);
            let is_congested = congested.is_some_and(|cutoff| sequential >= cutoff);
            self.check_stream(sequential).or(is_congested.then_some(Bypass::Congested))
        })
    }

    /// Reasons that do not depend on streams; such an I/O is part of none.
    fn check_request(&self, request: &Request) -> Option<Bypass> {
        let (mode, block) = (self.settings.mode, self.settings.block_sectors);
        if request.op == Op::Discard {
            Some(Bypass::Discard)
        } else if self.buckets.percent_in_use() > CUTOFFS[0] {
            Some(Bypass::Full)
        } else if mode == BcacheMode::None || (mode == BcacheMode::Writearound && request.op != Op::Read) {
            Some(Bypass::Mode)
        } else if !request.sector.is_multiple_of(block) || !u64::from(request.sectors).is_multiple_of(block) {
            Some(Bypass::Unaligned)
        } else {
            None
        }
    }

    fn check_stream(&self, sequential: u64) -> Option<Bypass> {
        let cutoff = self.settings.sequential_cutoff;
        (cutoff > 0 && sequential >= cutoff).then_some(Bypass::Sequential)
    }

    /// Whether a write that does not bypass stays in the cache, dirty (`should_writeback`).
    pub fn should_write_back(&self, sync: bool) -> bool {
        let in_use = self.buckets.percent_in_use();
        self.settings.mode == BcacheMode::Writeback && in_use <= CUTOFFS[1] && (sync || in_use <= CUTOFFS[2])
    }

    /// Whether the page is cached; its bucket is then as good as new.
    pub fn read_page(&mut self, page: u64) -> bool {
        let cached = self.pages.get(&page).filter(|page| self.buckets.is_live(page.place)).map(|page| page.place);
        if let Some(place) = cached {
            self.buckets.touch(place);
        }
        cached.is_some()
    }

    /// Adds a page, in place of what was cached of it; false if there is no bucket for it.
    pub fn insert_page(&mut self, task: u32, page: u64, dirty: bool) -> bool {
        let Some(place) = self.buckets.append(task, PAGE_SECTORS as u32, dirty) else {
            self.invalidate_page(page);
            return false;
        };
        let old = self.pages.insert(page, Page { place, dirty });
        self.forget(page, old);
        if dirty {
            self.dirty.insert(page);
        }
        self.counts.promotions += PAGE_SECTORS;
        if self.buckets.until_collection < 0 {
            self.buckets.collect();
            self.pages.retain(|_, page| self.buckets.is_live(page.place));
        }
        true
    }

    /// Removes a page.
    pub fn invalidate_page(&mut self, page: u64) {
        let old = self.pages.remove(&page);
        self.forget(page, old);
    }

    fn forget(&mut self, page: u64, old: Option<Page>) {
        let Some(old) = old.filter(|old| self.buckets.is_live(old.place)) else { return };
        self.buckets.remove(old.place, PAGE_SECTORS as u32, old.dirty);
        if old.dirty {
            self.dirty.remove(&page);
        }
    }

    /// Removes pages.
    pub fn invalidate(&mut self, pages: std::ops::Range<u64>) {
        if pages.end - pages.start <= self.pages.len() as u64 {
            return pages.for_each(|page| self.invalidate_page(page));
        }
        let cached: Vec<u64> = self.pages.keys().copied().filter(|page| pages.contains(page)).collect();
        cached.into_iter().for_each(|page| self.invalidate_page(page));
    }

    /// The next dirty pages to write back, in order of sectors: up to 5,000 sectors that are contiguous.
    pub fn next_writeback(&mut self, now_ns: u64) -> Option<std::ops::Range<u64>> {
        let Some(&first) = self.dirty.range(self.cursor..).next() else {
            if !self.dirty.is_empty() || self.cursor > 0 {
                // A pass over all dirty data is done: wait.
                (self.controller.paused_until_ns, self.controller.credit) = (now_ns.saturating_add(DELAY_NS), 0);
            }
            self.cursor = 0;
            return None;
        };
        let run = self.dirty.range(first..).zip(first..).take(5000 / PAGE_SECTORS as usize);
        let end = first + run.take_while(|&(&page, expected)| page == expected).count() as u64;
        self.cursor = end;
        Some(first..end)
    }

    /// Pages were written back.
    pub fn complete_writeback(&mut self, pages: std::ops::Range<u64>) {
        self.controller.wrote((pages.end - pages.start) * PAGE_SECTORS);
        for page in pages {
            if let Some(cached) = self.pages.get_mut(&page)
                && self.dirty.remove(&page)
            {
                cached.dirty = false;
                self.buckets.clean(cached.place, PAGE_SECTORS as u32);
                self.counts.writebacks += 1;
            }
        }
    }

    /// Sectors that writeback may write until now.
    pub fn writeback_budget(&mut self, now_ns: u64) -> u64 {
        self.controller.budget(now_ns, self.last_io_ns, self.dirty.len() as u64 * PAGE_SECTORS)
    }

    fn write_back(&mut self, now_ns: u64) {
        let mut budget = self.writeback_budget(now_ns);
        while budget >= PAGE_SECTORS
            && let Some(pages) = self.next_writeback(now_ns)
        {
            budget = budget.saturating_sub((pages.end - pages.start) * PAGE_SECTORS);
            self.complete_writeback(pages);
        }
    }

    /// Counts an I/O: it ages the buckets unless it bypasses, and writeback is not idle.
    pub fn count_io(&mut self, request: &Request, bypass: bool) {
        self.last_io_ns = request.time_ns;
        if bypass {
            self.counts.bypassed_sectors += u64::from(request.sectors);
        } else {
            self.buckets.rescale(f64::from(request.sectors) * self.sampler.rate());
        }
    }

    fn replay(&mut self, request: &Request, bypass: bool) {
        if !self.dirty.is_empty() {
            self.write_back(request.time_ns);
        }
        self.count_io(request, bypass);
        let end = request.sector.saturating_add(u64::from(request.sectors));
        let pages = request.sector / PAGE_SECTORS..end.div_ceil(PAGE_SECTORS);
        match request.op {
            Op::Read => self.read(request, pages, bypass),
            Op::Write { sync } => self.write(request, pages, bypass, sync),
            Op::Discard | Op::Flush => self.invalidate(pages),
        }
    }

    fn read(&mut self, request: &Request, pages: std::ops::Range<u64>, bypass: bool) {
        let (mut hit, mut seen) = (true, false);
        let sampler = self.sampler;
        for page in pages.filter(|&page| sampler.takes(page)) {
            seen = true;
            if !self.read_page(page) {
                hit = false;
                if !bypass {
                    self.insert_page(request.task, page, false);
                }
            }
        }
        // Bypassed bios are counted apart in the kernel, and cache_hit_ratio leaves them out.
        if seen && !bypass {
            self.counts.reads += 1;
            self.counts.read_hits += u64::from(hit);
        }
    }

    fn write(&mut self, request: &Request, pages: std::ops::Range<u64>, bypass: bool, sync: bool) {
        let dirty = !bypass && self.should_write_back(sync);
        let mut seen = false;
        let sampler = self.sampler;
        for page in pages.filter(|&page| sampler.takes(page)) {
            seen = true;
            if bypass {
                self.invalidate_page(page);
            } else {
                self.insert_page(request.task, page, dirty);
            }
        }
        self.counts.writes += u64::from(seen);
        self.counts.write_hits += u64::from(seen && !bypass);
    }
}

impl Replay for Bcache {
    fn request(&mut self, request: &Request) {
        if request.op != Op::Flush && request.sectors > 0 {
            let bypass = self.check_bypass(request).is_some();
            self.replay(request, bypass);
        }
    }

    fn request_in_stream(&mut self, request: &Request, sequential: u64) {
        if request.op != Op::Flush && request.sectors > 0 {
            let bypass = self.check_request(request).or_else(|| self.check_stream(sequential)).is_some();
            self.replay(request, bypass);
        }
    }

    fn counts(&self) -> Counts {
        Counts { demotions: self.buckets.invalidated, dirty: self.dirty.len() as u64, ..self.counts }
    }

    fn memory_bytes(&self) -> usize {
        // A table of the standard library has a byte of control next to each entry.
        self.buckets.memory_bytes() + self.pages.capacity() * (size_of::<(u64, Page)>() + 1) + self.dirty.len() * 16
    }
}

// What bypasses bcache (`check_should_bypass`, `bch_get_congested` in `request.c`).

/// Streams that are remembered (`RECENT_IO`), and for how long.
const STREAMS: usize = 128;
const FORGET_NS: u64 = 5_000_000_000;
/// The counter's lowest value (`CONGESTED_MAX`).
const MOST_CONGESTED: i64 = 1024;

/// Why an I/O bypasses the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    Discard,    // it discards
    Full,       // more than 95 % of the buckets hold dirty data
    Mode,       // the cache mode
    Unaligned,  // it is not aligned to the block size
    Sequential, // its stream, or the streams of its task on average, reached sequential_cutoff
    Congested,  // the cache device was slow
}

/// Sequential streams of all tasks.
#[derive(Clone, Debug)]
pub struct Streams {
    next: [u64; STREAMS],           // the sector that continues each stream
    tags: [u16; STREAMS],           // some bits of their hashes, which are searched for each I/O
    streams: [(u64, u64); STREAMS], // when each is forgotten, in ns, and its sectors
    order: [Entry; STREAMS],
    by_use: List,
    tasks: HashMap<u32, (u64, u64), Hashing>, // sectors of each task's last stream, and its average
}

impl Default for Streams {
    fn default() -> Self {
        let (mut order, mut by_use) = ([Entry::FREE; STREAMS], List::EMPTY);
        (0..STREAMS as u32).for_each(|index| by_use.push(&mut order, index));
        let (next, tags, streams) = ([u64::MAX; STREAMS], [0; STREAMS], [(0, 0); STREAMS]);
        Self { next, tags, streams, order, by_use, tasks: HashMap::default() }
    }
}

impl Streams {
    /// Counts an I/O; returns the sectors that count as sequential: those of its stream, or its task's average.
    pub fn add(&mut self, now_ns: u64, task: u32, sector: u64, sectors: u32) -> u64 {
        let (last, average) = self.tasks.entry(task).or_default();
        let tag_of = |sector| (hash64(sector) >> 48) as u16;
        let tag = tag_of(sector);
        let may_continue = self.tags.iter().fold(false, |any, &other| any | (other == tag));
        let continues = |&index: &usize| self.next[index] == sector && now_ns < self.streams[index].0;
        let known = if may_continue { (0..STREAMS).find(continues) } else { None };
        if known.is_none() {
            *average = (*average * 7 + *last) / 8;
        }
        let sum = known.map_or(0, |index| self.streams[index].1) + u64::from(sectors);
        let index = known.unwrap_or(self.by_use.head as usize);
        self.streams[index] = (now_ns.saturating_add(FORGET_NS), sum);
        self.next[index] = sector.saturating_add(u64::from(sectors));
        self.tags[index] = tag_of(self.next[index]);
        self.by_use.remove(&mut self.order, index as u32);
        self.by_use.push(&mut self.order, index as u32);
        *last = sum;
        sum.max(*average)
    }
}

/// How congested the cache device is; the replay of a trace knows no latencies and never is.
#[derive(Clone, Debug)]
pub struct Congestion {
    level: i64,
    last_slow_ns: u64,
    random: u64,
}

impl Congestion {
    /// No congestion; the seed is that of the random part of the cutoff.
    pub fn new(seed: u64) -> Self {
        Self { level: 0, last_slow_ns: 0, random: seed }
    }

    /// An I/O to the cache device took this long; the thresholds are 2000 µs for reads and 20,000 µs for writes by
    /// default. The kernel's µs have 1,024 ns (`local_clock_us`).
    pub fn count(&mut self, now_ns: u64, latency_ns: u64, threshold_us: u64) {
        if latency_ns >> 10 > threshold_us {
            self.last_slow_ns = now_ns;
            self.level = (self.level - (latency_ns >> 20) as i64).max(-MOST_CONGESTED);
        } else if self.level < 0 {
            self.level += 1;
        }
    }

    /// The cutoff in sectors; `None` without congestion.
    pub fn cutoff(&mut self, now_ns: u64) -> Option<u64> {
        let level = self.level + (now_ns.saturating_sub(self.last_slow_ns) >> 20) as i64;
        if level >= 0 {
            return None;
        }
        let steps = (level + MOST_CONGESTED).max(0) as u64;
        // 2^(steps / 64), linear between powers of two (fract_exp_two).
        let power = if steps == 0 { 0 } else { (1 << (steps / 64)) + (((steps % 64) << (steps / 64)) / 64) };
        self.random = hash64(self.random);
        Some(power.saturating_sub(u64::from((self.random as u32).count_ones())).max(1))
    }
}

// The rate of bcache's writeback (`writeback.c`, `writeback.h`).

const SECOND_NS: u64 = 1_000_000_000;
/// Time between computations of the rate (`WRITEBACK_RATE_UPDATE_SECS_DEFAULT`).
const UPDATE_S: i64 = 5;
/// How long the controller waits after everything was written (`writeback_delay`).
const DELAY_NS: u64 = 30 * SECOND_NS;
/// Idle for this long, it writes at full speed (six updates of the rate).
const IDLE_NS: u64 = 30 * SECOND_NS;

/// The proportional-integral controller, in sectors.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    target: i64,
    integral: i64,
    rate: i64,
    next_update_ns: u64,
    last_ns: u64,
    paused_until_ns: u64,
    credit: i128, // below 0 after more was written than allowed; what may be written now, in sectors × ns
}

impl Controller {
    /// A controller that leaves this many sectors dirty.
    pub fn new(target: u64) -> Self {
        Self { target: target as i64, rate: 8, ..Self::default() }
    }

    /// The rate, in sectors a second.
    pub fn rate(&self) -> u64 {
        self.rate as u64
    }

    /// Sectors that may be written back until `now_ns`; all of them if there was no I/O for half a minute.
    pub fn budget(&mut self, now_ns: u64, last_io_ns: u64, dirty: u64) -> u64 {
        while self.next_update_ns <= now_ns {
            let at = self.next_update_ns;
            self.accrue(at);
            self.update(dirty);
            // Long pauses: the integral is bounded by them anyway.
            self.next_update_ns = (at + UPDATE_S as u64 * SECOND_NS).max(now_ns.saturating_sub(3600 * SECOND_NS));
        }
        if now_ns.saturating_sub(last_io_ns) >= IDLE_NS {
            self.last_ns = now_ns;
            return u64::MAX;
        }
        self.accrue(now_ns);
        (self.credit.max(0) / i128::from(SECOND_NS)) as u64
    }

    fn accrue(&mut self, now_ns: u64) {
        let from = self.last_ns.max(self.paused_until_ns);
        self.credit += i128::from(now_ns.saturating_sub(from)) * i128::from(self.rate);
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// `__update_writeback_rate`: (dirty − target) / 40 + integral / 10000, at least 8 sectors.
    fn update(&mut self, dirty: u64) {
        let error = dirty as i64 - self.target;
        // The integral falls only while it is positive.
        if error > 0 || self.integral > 0 {
            self.integral += error * UPDATE_S;
        }
        self.rate = (error / 40 + self.integral / 10_000).max(8);
    }

    /// Sectors were written back.
    pub fn wrote(&mut self, sectors: u64) {
        self.credit -= i128::from(sectors) * i128::from(SECOND_NS);
    }
}
