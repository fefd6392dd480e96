//! bcache (`drivers/md/bcache`, 6.12): what is cached, bypassed, invalidated and written back.
//!
//! The index has pages of 4 KiB instead of the kernel's keys of any length: a smaller I/O counts as its whole page.
//! Left out: more writeback for fragmented buckets (5.12), partial stripes, and the journal, which moves no cached data.

mod buckets;
mod bypass;
mod writeback;

use crate::replay::{Counts, Op, Replay, Request};
use crate::sampler::Sampler;
use blklab_stats::Hashing;
pub use buckets::{Buckets, Place};
pub use bypass::{Bypass, Congestion, Streams};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
pub use writeback::Controller;

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
                self.controller.end_pass(now_ns);
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
