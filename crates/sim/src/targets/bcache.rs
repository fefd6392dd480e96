//! bcache (drivers/md/bcache, 6.12): the crate `cache` says what is cached, bypassed and written back; this target does
//! the I/O.
//!
//! A read goes to the cache, the backing device, or both in parts; what it missed is written to the cache afterwards.
//! A write ends when a worker has inserted its keys into the btree. Leaves of the btree and the journal are written.
//! Positions on the cache device are not those of buckets: new data is appended, cached data is found at its hash.
//! Not simulated: metadata of buckets (`bch_prio_write`), splits of btree nodes, and garbage collection's I/O.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use blklab_cache::bcache::{Bcache as Cache, BcacheMode, BcacheSettings, PAGE_SECTORS};
use blklab_cache::{Op as RequestOp, Replay, Request};
use serde::{Deserialize, Serialize};

use super::job_blocks::{InitialState, JobBlocks};
use super::locks::{LockUse, Locks, Moment};
use super::{BuildContext, Built, Node, TargetSpec};
use crate::arena::Numbered;
use crate::bio::{Bio, Flags, NONE, Op, Owner};
use crate::engine::{Child, Limits, Mapped, PlugAfter, Simulation, Target, WorkerNext};
use crate::events::Time;
use crate::load::Job;
use crate::rng::mix;

/// The journal is written at most this long after a change (`journal_delay_ms`), writeback looks for work as often.
const PERIOD: Time = 100_000_000;
/// Sectors of the superblock of the backing device (BDEV_DATA_START_DEFAULT).
const DATA_START: u64 = 16;
/// Bytes of a key of cached data, and of one that only says what is missing or invalid.
const KEY: u64 = 24;
const EMPTY_KEY: u64 = 16;
/// Bytes of new keys above which a leaf of the btree is written (`bch_btree_leaf_dirty`).
const LEAF: u64 = 4096 - 48;
/// Bytes of keys above which the journal is written at once (`JSET_BITS`), less its head (`struct jset`).
const JOURNAL: u64 = (4096 << 3) - JOURNAL_HEAD;
const JOURNAL_HEAD: u64 = 240;
/// Writebacks in flight at most (`in_flight` of `cached_dev_writeback_init`).
const MOST_WRITEBACKS: usize = 64;
/// How often the lines of a key's locks and data move between cores while the worker inserts it into the btree, each as
/// long as a contended lock: with `md_ns` 5 µs on the default host, because an insertion takes 4 to 6 µs. The worker
/// inserts one key after the other. Slower processors add nothing: guests in an emulator, which have two cores and are a
/// hundred times slower, insert a key in the time of one step of md (`accuracy/run agreement --recorded`).
const KEY_MOVES: Time = 11;

/// A backing device with a bcache. The names are those of make-bcache and sysfs.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bcache {
    /// Its name in results.
    pub name: String,
    /// The slow device or stack.
    pub backing: Box<Node>,
    /// The fast device or stack.
    pub cache: Box<Node>,
    /// What the cache does with writes.
    pub mode: BcacheMode,
    /// Bytes from which a sequential stream bypasses the cache; 0: no stream does.
    pub sequential_cutoff: u64,
    /// Bytes of a bucket, in which the cache allocates space.
    pub bucket: u64,
    /// Bytes of a block; I/O that is not aligned to it bypasses the cache.
    pub block: u64,
    /// Percentage of dirty data to keep.
    pub writeback_percent: u64,
    /// I/O bypasses the cache while the cache's reads are slower than this, in µs; 0: never.
    pub congested_read_threshold_us: u64,
    /// I/O bypasses the cache while the cache's writes are slower than this, in µs; 0: never.
    pub congested_write_threshold_us: u64,
    /// What the cache holds at first: empty, clean junk, or warm.
    #[serde(default)]
    pub state: InitialState,
}

/// What a bcache counted, in the words of sysfs; only reads are hits and misses.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct BcacheReport {
    /// Its name.
    pub name: String,
    /// Reads that did not bypass the cache, and were cached completely.
    pub cache_hits: u64,
    /// Reads that did not bypass the cache, and were not cached completely.
    pub cache_misses: u64,
    /// Reads that were chosen to bypass the cache, and were cached completely.
    pub cache_bypass_hits: u64,
    /// Reads that were chosen to bypass the cache, and were not cached completely.
    pub cache_bypass_misses: u64,
    /// Bytes of the reads, writes and discards that bypassed the cache.
    pub bypassed_bytes: u64,
    /// Bytes in the cache at the end that are not on the backing device.
    pub dirty_bytes: u64,
    /// Bytes written back to the backing device.
    pub writeback_bytes: u64,
    /// Writes of the journal.
    pub journal_writes: u64,
    /// How long the worker that inserts keys into the btree was busy, in ns.
    pub worker_ns: u64,
    /// How its locks were used.
    pub locks: Vec<LockUse>,
}

/// An I/O that the target owns, and what the worker does when it has ended.
#[derive(Clone, Debug)]
struct Part {
    purpose: Purpose,
    parent: u32, // The bio that it is a piece of, or `NONE`
    task: u32,
    pages: Range<u64>,
    begun: Time,
}

impl Part {
    /// An I/O that is no piece of a bio.
    fn own(purpose: Purpose, pages: Range<u64>) -> Self {
        Self { purpose, parent: NONE, task: NONE, pages, begun: 0 }
    }

    /// Whether the worker inserts a key for it.
    fn has_key(&self) -> bool {
        use Purpose::{CachedWrite, Filled, Invalidation, WritebackWrite};
        matches!(self.purpose, CachedWrite | Filled | Invalidation | WritebackWrite)
    }

    fn sectors(&self) -> u32 {
        ((self.pages.end - self.pages.start) * PAGE_SECTORS) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    CachedRead,
    CachedWrite,  // Its key is inserted then (`bch_data_insert_keys`)
    Passed,       // To the backing device
    Missed,       // From the backing device; it is copied, and written to the cache (`cached_dev_read_done`)
    Filled,       // It is written to the cache; its key is inserted then
    Invalidation, // No I/O: a key without data is inserted
    Leaf,         // Of the btree
    JournalFlush, // Before the journal is written
    JournalWrite,
    WritebackRead, // From the cache; it is written to the backing device then
    WritebackWrite,
}

/// The journal: one write is in flight at a time, and what comes meanwhile shares the next one.
#[derive(Debug, Default)]
struct Journal {
    keys: u64,         // Bytes of keys since the last write began
    waiting: Vec<u32>, // Bios that wait for the next write, and for the one in flight
    writing: Vec<u32>,
    sectors: u32, // Of the write in flight; 0: there is none
}

/// A bcache in a running simulation.
#[derive(Default)]
pub struct BcacheTarget {
    id: u16,
    backing: Child,
    device: Child,
    thresholds_us: [u64; 2], // Of congestion, for reads and writes
    cache: Cache,
    locks: Locks,
    parts: Numbered<Part>,
    queue: VecDeque<Part>,
    running: Option<Part>, // What the worker does now
    is_awake: bool,        // Whether the worker has not slept since its last work
    worker: u32,
    writebacks: usize,
    append: u64,                     // Where the next data goes on the cache device
    leaf: BTreeMap<u64, (u64, u32)>, // Keys that are in no leaf on the cache device: first page, end, and task
    leaf_bytes: u64,
    journal: Journal,
    due: Option<Time>, // When the worker writes the journal and looks for writebacks
    report: BcacheReport,
}

impl Target for BcacheTarget {
    fn start(&mut self, new_worker: &mut dyn FnMut(u32) -> u32) {
        self.worker = new_worker(0);
    }

    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped {
        self.set_due(sim);
        let bio = sim.bios[number];
        if bio.op == Op::Flush {
            self.pass(sim, task, number);
            self.wait_for_journal(sim, task, number);
            return Mapped::Taken;
        }
        let op = match bio.op {
            Op::Read => RequestOp::Read,
            Op::Discard => RequestOp::Discard,
            _ => RequestOp::Write { sync: bio.flags.has(Flags::SYNC) },
        };
        let request = Request { time_ns: sim.now, op, sector: bio.sector, sectors: bio.sectors, task: bio.task };
        let bypass = self.cache.check_bypass(&request).is_some();
        self.cache.count_io(&request, bypass);
        self.report.bypassed_bytes += if bypass { u64::from(bio.sectors) * 512 } else { 0 };
        let pages = bio.sector / PAGE_SECTORS..bio.end().div_ceil(PAGE_SECTORS);
        match bio.op {
            Op::Read => self.map_read(sim, task, number, pages, bypass),
            _ => self.map_write(sim, task, number, pages, bypass),
        }
        Mapped::Taken
    }

    fn end_io(&mut self, sim: &mut Simulation, bio: &Bio) {
        use Purpose::{CachedRead, CachedWrite, Filled, JournalWrite, Leaf, Missed, Passed, WritebackWrite};
        let Owner::Target { number, .. } = bio.owner else { unreachable!("{bio:?}") };
        let part = self.parts.remove(number);
        let parent = part.parent;
        if matches!(part.purpose, CachedRead | CachedWrite | Filled | Leaf) {
            let threshold = self.thresholds_us[usize::from(part.purpose != CachedRead)];
            if threshold > 0 {
                self.cache.congestion.count(sim.now, sim.now - part.begun, threshold);
            }
        }
        match part.purpose {
            CachedRead | Passed | Leaf => {}
            JournalWrite => {
                self.journal.sectors = 0;
                std::mem::take(&mut self.journal.writing).into_iter().for_each(|parent| sim.end_part(parent));
                if !self.journal.waiting.is_empty() {
                    self.add_work(sim, part);
                }
            }
            CachedWrite | Missed => {
                sim.bios[parent].remaining += 1;
                self.add_work(sim, part);
            }
            WritebackWrite => {
                self.writebacks -= 1;
                self.report.writeback_bytes += u64::from(part.sectors()) * 512;
                self.cache.complete_writeback(part.pages.clone());
                self.add_work(sim, part);
            }
            _ => self.add_work(sim, part),
        }
        if parent != NONE && sim.count_part(parent, bio) {
            sim.complete(parent);
        }
    }

    fn work(&mut self, sim: &mut Simulation, task: u32, _worker: u32) -> WorkerNext {
        if let Some(done) = self.running.take() {
            self.finish(sim, task, done);
        }
        if let Some(next) = self.queue.pop_front() {
            let switches = if std::mem::replace(&mut self.is_awake, true) { 0 } else { 2 * sim.host.switch_ns };
            let copied = if next.purpose == Purpose::Missed { u64::from(next.sectors()) / PAGE_SECTORS } else { 0 };
            let moves = if next.has_key() { KEY_MOVES } else { 0 };
            self.running = Some(next);
            let after = switches + sim.host.md_ns + moves * sim.host.lock_ns + copied * sim.host.copy_ns;
            self.report.worker_ns += after + std::mem::take(&mut sim.tasks[task as usize].spent);
            return WorkerNext::Again { after, plug: PlugAfter::Ends, undisturbed: true };
        }
        self.is_awake = false;
        if self.due.is_none_or(|due| due <= sim.now) {
            self.due = None;
            self.write_back(sim, task);
            if self.journal.keys > 0 {
                self.write_journal(sim, task);
            }
            if self.cache.counts().dirty > 0 || self.journal.keys > 0 {
                self.set_due(sim);
            }
        }
        WorkerNext::Sleep
    }
}

impl BcacheTarget {
    fn set_due(&mut self, sim: &mut Simulation) {
        if self.due.is_none() {
            self.due = Some(sim.now + PERIOD);
            sim.run_worker_at(sim.now + PERIOD, self.worker);
        }
    }

    /// Gives work to the worker.
    fn add_work(&mut self, sim: &mut Simulation, work: Part) {
        self.queue.push_back(work);
        sim.wake_worker(self.worker);
    }

    /// The worker goes on with what has ended.
    fn finish(&mut self, sim: &mut Simulation, task: u32, done: Part) {
        let parent = done.parent;
        match done.purpose {
            Purpose::Missed => {
                sim.end_part(parent);
                self.insert_missed(sim, task, done);
            }
            Purpose::JournalFlush => {
                self.submit(sim, task, 0, self.journal.sectors, Part::own(Purpose::JournalWrite, 0..0));
            }
            Purpose::JournalWrite => self.write_journal(sim, task),
            Purpose::WritebackRead => {
                let (sector, sectors) = (done.pages.start * PAGE_SECTORS, done.sectors());
                self.submit(sim, task, sector, sectors, Part::own(Purpose::WritebackWrite, done.pages));
            }
            _ => {
                let bytes = self.insert_key(sim, task, done);
                if parent == NONE {
                    return;
                }
                self.journal.keys += bytes;
                if sim.bios[parent].flags.has(Flags::FUA) {
                    self.wait_for_journal(sim, task, parent);
                } else if self.journal.keys > JOURNAL {
                    self.write_journal(sim, task);
                }
                sim.end_part(parent);
            }
        }
    }

    /// Inserts a key into the btree, and writes its leaf if that is full. Returns the key's bytes.
    fn insert_key(&mut self, sim: &mut Simulation, task: u32, done: Part) -> u64 {
        let (start, last) = (done.pages.start, (done.pages.end, done.task));
        let bytes = if done.purpose == Purpose::Invalidation { EMPTY_KEY } else { KEY };
        // A miss has left an empty key (`bch_btree_insert_check_key`).
        self.leaf_bytes += if done.purpose == Purpose::Filled { EMPTY_KEY } else { 0 };
        match self.leaf.range_mut(..=start).next_back() {
            // It replaces a key that is not yet written, or continues the task's last one (`bch_bkey_try_merge`).
            Some((&first, known)) if first == start || *known == (start, done.task) => *known = last,
            _ => {
                self.leaf.insert(start, last);
                self.leaf_bytes += bytes;
            }
        }
        if self.leaf_bytes > LEAF {
            self.leaf_bytes = 0;
            self.leaf.clear();
            self.submit(sim, task, 0, PAGE_SECTORS as u32, Part::own(Purpose::Leaf, 0..0));
        }
        bytes
    }

    /// A bio ends when the next write of the journal is done (`bch_journal_meta`).
    fn wait_for_journal(&mut self, sim: &mut Simulation, task: u32, parent: u32) {
        sim.bios[parent].remaining += 1;
        self.journal.waiting.push(parent);
        self.write_journal(sim, task);
    }

    /// Writes the journal, durably and after a flush, unless it is being written.
    fn write_journal(&mut self, sim: &mut Simulation, task: u32) {
        let journal = &mut self.journal;
        if journal.sectors > 0 {
            return;
        }
        self.report.journal_writes += 1;
        let bytes = JOURNAL_HEAD + std::mem::take(&mut journal.keys);
        journal.sectors = (bytes.div_ceil(4096) * PAGE_SECTORS) as u32;
        journal.writing = std::mem::take(&mut journal.waiting);
        self.submit(sim, task, 0, 0, Part::own(Purpose::JournalFlush, 0..0));
    }

    /// A read: pieces that are cached and pieces that are not, in turn; only the first one that is not is cached.
    fn map_read(&mut self, sim: &mut Simulation, task: u32, number: u32, pages: Range<u64>, bypass: bool) {
        self.locks.take(sim, task, Moment::Read, 1, 0);
        let bio = sim.bios[number];
        let mut pieces: Vec<(bool, Range<u64>)> = Vec::with_capacity(1);
        for page in pages {
            let hit = self.cache.read_page(page);
            match pieces.last_mut() {
                Some((was_hit, piece)) if *was_hit == hit => piece.end = page + 1,
                _ => pieces.push((hit, page..page + 1)),
            }
        }
        let all_hit = pieces.iter().all(|&(hit, _)| hit);
        *(match (all_hit, bypass) {
            (true, false) => &mut self.report.cache_hits,
            (false, false) => &mut self.report.cache_misses,
            (true, true) => &mut self.report.cache_bypass_hits,
            (false, true) => &mut self.report.cache_bypass_misses,
        }) += 1;
        if !bypass {
            sim.record_lookups(u64::from(all_hit), u64::from(!all_hit));
        }
        let mut caches = !bypass;
        for (hit, pages) in pieces {
            let (first, end) = (bio.sector.max(pages.start * PAGE_SECTORS), bio.end().min(pages.end * PAGE_SECTORS));
            let (purpose, sector) = if hit {
                (Purpose::CachedRead, self.cached_at(pages.start))
            } else {
                (if std::mem::take(&mut caches) { Purpose::Missed } else { Purpose::Passed }, first)
            };
            let part = Part { purpose, parent: number, task: bio.task, pages, begun: 0 };
            self.submit(sim, task, sector, (end - first) as u32, part);
        }
    }

    /// A write: to the cache, to the backing device, or to both.
    fn map_write(&mut self, sim: &mut Simulation, task: u32, number: u32, pages: Range<u64>, bypass: bool) {
        let bio = sim.bios[number];
        let part = |purpose| Part { purpose, parent: number, task: bio.task, pages: pages.clone(), begun: 0 };
        if bypass {
            sim.bios[number].remaining += 1;
            self.add_work(sim, part(Purpose::Invalidation));
            self.cache.invalidate(pages);
            return self.pass(sim, task, number);
        }
        self.locks.take(sim, task, Moment::Write, 1, 0);
        let dirty = self.cache.should_write_back(bio.flags.has(Flags::SYNC));
        let inserted = pages.clone().filter(|&page| self.cache.insert_page(bio.task, page, dirty)).count();
        if inserted > 0 {
            let sector = self.append(bio.sectors);
            self.submit(sim, task, sector, bio.sectors, part(Purpose::CachedWrite));
        }
        if !dirty || inserted == 0 {
            self.pass(sim, task, number);
        }
    }

    /// Sends a bio to the backing device.
    fn pass(&mut self, sim: &mut Simulation, task: u32, number: u32) {
        let bio = sim.bios[number];
        let part = Part { purpose: Purpose::Passed, parent: number, task: bio.task, pages: 0..0, begun: 0 };
        self.submit(sim, task, bio.sector, bio.sectors, part);
    }

    /// Writes what a read missed to the cache, unless a write has cached it meanwhile.
    fn insert_missed(&mut self, sim: &mut Simulation, task: u32, missed: Part) {
        let missing: Vec<u64> = missed.pages.clone().filter(|&page| !self.cache.read_page(page)).collect();
        let inserted = missing.into_iter().filter(|&page| self.cache.insert_page(missed.task, page, false)).count();
        if inserted > 0 {
            let sectors = inserted as u32 * PAGE_SECTORS as u32;
            let sector = self.append(sectors);
            self.submit(sim, task, sector, sectors, Part { purpose: Purpose::Filled, parent: NONE, ..missed });
        }
    }

    /// Starts the writebacks that the rate allows.
    fn write_back(&mut self, sim: &mut Simulation, task: u32) {
        // Pages in flight are still dirty, so a pass over all of them does not begin before they are done.
        if self.writebacks > 0 || self.cache.counts().dirty == 0 {
            return;
        }
        let mut budget = self.cache.writeback_budget(sim.now);
        while budget >= PAGE_SECTORS
            && self.writebacks < MOST_WRITEBACKS
            && let Some(pages) = self.cache.next_writeback(sim.now)
        {
            budget = budget.saturating_sub((pages.end - pages.start) * PAGE_SECTORS);
            self.writebacks += 1;
            let (sector, part) = (self.cached_at(pages.start), Part::own(Purpose::WritebackRead, pages));
            self.submit(sim, task, sector, part.sectors(), part);
        }
    }

    fn cached_at(&self, page: u64) -> u64 {
        mix(page) % (self.device.limits.sectors / PAGE_SECTORS) * PAGE_SECTORS
    }

    fn append(&mut self, sectors: u32) -> u64 {
        let sectors = u64::from(sectors);
        if self.append + sectors > self.device.limits.sectors {
            self.append = 0;
        }
        self.append += sectors;
        self.append - sectors
    }

    /// Submits an I/O to the device that its purpose says.
    fn submit(&mut self, sim: &mut Simulation, task: u32, sector: u64, sectors: u32, part: Part) {
        let journal = Flags::SYNC.with(Flags::METADATA);
        let (op, flags) = match part.purpose {
            Purpose::JournalFlush => (Op::Flush, journal),
            Purpose::JournalWrite => (Op::Write, journal.with(Flags::FUA)),
            Purpose::Leaf => (Op::Write, Flags::METADATA.with(Flags::FUA)),
            Purpose::WritebackRead => (Op::Read, Flags::SYNC),
            Purpose::WritebackWrite | Purpose::Filled => (Op::Write, Flags::default()),
            purpose => {
                let bio = &mut sim.bios[part.parent];
                bio.remaining += 1;
                // The journal makes cached data durable.
                let durable = if purpose == Purpose::CachedWrite { Flags::FUA } else { Flags::default() };
                (bio.op, bio.flags.without(durable))
            }
        };
        let to_backing = matches!(part.purpose, Purpose::Passed | Purpose::Missed | Purpose::WritebackWrite);
        let (child, start) = if to_backing { (self.backing, DATA_START) } else { (self.device, 0) };
        let number = self.parts.add(Part { begun: sim.now, ..part });
        let owner = Owner::Target { target: self.id, tag: 0, number };
        let sector = (start + sector).min(child.limits.sectors - u64::from(sectors));
        sim.submit_new(task, (op, child.target, sector, sectors), flags, owner);
    }

    /// Brings the cache of `sectors` into its initial state.
    fn fill(&mut self, sectors: u64, state: InitialState, jobs: &[Job]) -> Result<(), String> {
        let named = |problem: &str| format!("{}: {problem}", self.report.name);
        if matches!(state, InitialState::Layout | InitialState::JunkDirty) {
            return Err(named("a bcache begins empty, with junk or warm"));
        }
        let blocks = sectors / PAGE_SECTORS;
        let most = self.device.limits.sectors / PAGE_SECTORS * 95 / 100;
        let pages = JobBlocks { jobs, block_bytes: PAGE_SECTORS * 512, blocks }.contents(state, most).map_err(named)?;
        for page in pages {
            self.cache.insert_page(NONE, page, false);
        }
        Ok(())
    }
}

impl TargetSpec for Bcache {
    type Target = BcacheTarget;
    type Report = BcacheReport;

    fn children(&self) -> Vec<Option<&Node>> {
        vec![Some(&self.backing), Some(&self.cache)]
    }

    fn build(&self, id: u16, children: &[Option<Child>], context: &BuildContext) -> Built<BcacheTarget> {
        let &[Some(backing), Some(device)] = children else {
            return Err(format!("{}: a bcache needs a backing device and a cache device", self.name));
        };
        let buckets = device.limits.sectors * 512 / self.bucket.max(1);
        if buckets <= 512 || self.bucket < PAGE_SECTORS * 512 {
            return Err(format!("{}: bcache needs more than 512 buckets, and {buckets} fit", self.name));
        }
        let settings = BcacheSettings {
            buckets: buckets.min(u64::from(u32::MAX)) as u32,
            bucket_sectors: (self.bucket / 512) as u32,
            mode: self.mode,
            sequential_cutoff: self.sequential_cutoff / 512,
            writeback_percent: self.writeback_percent,
            block_sectors: self.block / 512,
            ..BcacheSettings::default()
        };
        let sectors = backing.limits.sectors.saturating_sub(DATA_START) / PAGE_SECTORS * PAGE_SECTORS;
        let cpu_ns = backing.limits.cpu_ns.max(device.limits.cpu_ns) + context.host.md_ns;
        let mut target = BcacheTarget {
            id,
            backing,
            device,
            thresholds_us: [self.congested_read_threshold_us, self.congested_write_threshold_us],
            cache: Cache::new(settings),
            locks: Locks::new(&["bcache".into()], context, 0),
            report: BcacheReport { name: self.name.clone(), ..BcacheReport::default() },
            ..BcacheTarget::default()
        };
        target.fill(sectors, self.state, context.jobs)?;
        Ok((target, Limits { sectors, cpu_ns, fast: true, ..backing.limits }))
    }

    fn report(target: &BcacheTarget) -> BcacheReport {
        let dirty_bytes = target.cache.counts().dirty * PAGE_SECTORS * 512;
        BcacheReport { dirty_bytes, locks: target.locks.usage(), ..target.report.clone() }
    }
}

#[cfg(test)]
mod tests;
