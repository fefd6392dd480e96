//! smq, dm-cache's policy since 4.6 (`dm-cache-policy-smq.c`, read in 4.9, b29d4986, 4.14, deb71918, 1e72a8e8, 6.1 and
//! 6.12). docs/explanation/caches.md describes it.

mod hotspot;
mod kernel;
mod multiqueue;

use crate::entry::{BlockTable, Entry, List};
use crate::policy::{Access, CacheBlock, Geometry, LoadError, Lookup, Operation, OriginBlock, Policy, Work};
use hotspot::{Hotspot, LevelStats};
pub use hotspot::{large_origin, region_shift};
pub use kernel::{SMQ_KERNELS, SmqKernel};
use multiqueue::{LEVELS, Multiqueue};
use std::collections::HashSet;

/// Makes an empty cache of a policy.
pub type PolicyBuilder = fn(Geometry, SmqKernel) -> Box<dyn Policy>;

/// The policy of dm-cache with this name, as in the kernel.
pub fn find_policy(name: &str) -> Option<PolicyBuilder> {
    match name {
        "smq" => Some(|geometry, kernel| Box::new(Smq::new(geometry, kernel))), // since Linux 4.6
        // It only writes dirty blocks back.
        "cleaner" => Some(|geometry, kernel| {
            Box::new(Smq { cleaner: true, migrations_allowed: false, ..Smq::new(geometry, kernel) })
        }),
        _ => None,
    }
}

/// A block that was not used for this long after its sentinel moved may be written back (`WRITEBACK_PERIOD`).
const WRITEBACK_PERIOD_NS: u64 = 10_000_000_000;
/// The same for the clean queue (`DEMOTE_PERIOD`).
const DEMOTE_PERIOD_NS: u64 = 60_000_000_000;
/// Most pieces of work, queued or running (`smq_create`; 10,240 when the limit was introduced).
const MOST_WORK: usize = 4096;
/// Levels from which a full cache of 4.11 promotes, by sixteenths of its accesses that hit the upper quarter of the
/// cache's levels (`default_promote_level`).
const PROMOTE_LEVELS: [u8; 17] = [1, 1, 1, 2, 4, 6, 7, 8, 7, 6, 4, 4, 3, 3, 2, 2, 1];
/// Sentinels of a queue: two of each level.
const SENTINELS: u32 = 2 * LEVELS as u32;

/// Sentinels move to the tail of their lists in turn, so that "behind none" means "not used for a period or two".
#[derive(Clone, Debug)]
struct Sentinels {
    first: u32,
    newer: u32,
    period_ns: u64,
    next_ns: u64,
}

impl Sentinels {
    fn new(first: u32, period_ns: u64) -> Self {
        Self { first, newer: 1, period_ns, next_ns: period_ns }
    }

    /// The older and the newer sentinel of a level.
    fn of_level(&self, level: u8) -> [u32; 2] {
        let first = self.first + 2 * u32::from(level);
        [first + 1 - self.newer, first + self.newer]
    }

    fn tick(&mut self, now_ns: u64, entries: &mut [Entry], queue: &mut Multiqueue) {
        if now_ns > self.next_ns {
            self.next_ns = now_ns + self.period_ns;
            self.newer = 1 - self.newer;
            self.push(self.newer, entries, queue, true);
        }
    }

    /// Adds the first or the second sentinel of every level as the newest.
    fn push(&self, which: u32, entries: &mut [Entry], queue: &mut Multiqueue, again: bool) {
        for level in 0..LEVELS as u32 {
            let index = self.first + 2 * level + which;
            if again {
                queue.remove(entries, index);
            }
            let sentinel = &mut entries[index as usize];
            sentinel.level = level as u8;
            sentinel.set(Entry::SENTINEL, true);
            queue.push(entries, index);
        }
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct Smq {
    kernel: SmqKernel,
    cleaner: bool, // the policy `cleaner`: writes everything back, promotes nothing
    cache_blocks: u32,
    entries: Vec<Entry>, // cache blocks, then the sentinels of the dirty and of the clean queue
    table: BlockTable,
    free: List,
    clean: Multiqueue,
    dirty: Multiqueue,
    dirty_blocks: u32,
    writeback_sentinels: Sentinels,
    demote_sentinels: Sentinels,
    hotspot: Hotspot,
    cache_stats: LevelStats,
    period: u32, // the number of the period of the cache's queues; entries that were hit in it have it too
    next_period_ns: u64,
    /// A miss is promoted if its region has this level in the hotspot queue; none before the first tick.
    pub read_level: u8,
    write_level: u8,
    tracker: Tracker,
    migrations_allowed: bool,
}

impl Smq {
    /// An empty cache.
    pub fn new(geometry: Geometry, kernel: SmqKernel) -> Self {
        Self::new_sampled(geometry, kernel, 1.0)
    }

    /// An empty cache that sees this share of the hotspot blocks, and is as much smaller.
    pub fn new_sampled(geometry: Geometry, kernel: SmqKernel, rate: f64) -> Self {
        let blocks = (f64::from(geometry.cache_blocks) * rate).round().max(1.0) as u32;
        let mut smq = Self {
            kernel,
            cleaner: false,
            cache_blocks: blocks,
            entries: vec![Entry::FREE; (blocks + 2 * SENTINELS) as usize],
            table: BlockTable::new(0), // it grows: most caches are never full
            free: List::EMPTY,
            clean: Multiqueue::new(0, 0),
            dirty: Multiqueue::new(0, 0),
            dirty_blocks: 0,
            writeback_sentinels: Sentinels::new(blocks, WRITEBACK_PERIOD_NS),
            demote_sentinels: Sentinels::new(blocks + SENTINELS, DEMOTE_PERIOD_NS),
            hotspot: Hotspot::new(geometry, rate),
            // Only 4.11 judges by it.
            cache_stats: LevelStats::new(if kernel.replaces() { rate } else { 1.0 }),
            period: 1,
            next_period_ns: 0,
            read_level: LEVELS as u8,
            write_level: LEVELS as u8,
            tracker: Tracker::new((kernel >= SmqKernel::V4_15).then_some(MOST_WORK)),
            migrations_allowed: true,
        };
        for index in 0..blocks {
            smq.free.push(&mut smq.entries, index);
        }
        for which in 0..2 {
            smq.writeback_sentinels.push(which, &mut smq.entries, &mut smq.dirty, false);
            smq.demote_sentinels.push(which, &mut smq.entries, &mut smq.clean, false);
        }
        smq
    }

    fn entry(&mut self, index: u32) -> &mut Entry {
        &mut self.entries[index as usize]
    }

    fn queue_of(&mut self, index: u32) -> (&mut Multiqueue, &mut [Entry]) {
        let dirty = self.entries[index as usize].has(Entry::DIRTY);
        (if dirty { &mut self.dirty } else { &mut self.clean }, &mut self.entries)
    }

    fn push(&mut self, index: u32) {
        let (queue, entries) = self.queue_of(index);
        queue.push(entries, index);
    }

    fn remove_from_queue(&mut self, index: u32) {
        let (queue, entries) = self.queue_of(index);
        queue.remove(entries, index);
    }

    /// Takes a free cache block: the one that was freed first; until 4.14 the one that was freed last.
    fn allocate(&mut self) -> Option<u32> {
        let oldest_first = self.kernel >= SmqKernel::V4_15;
        let index = if oldest_first { self.free.oldest(&self.entries).0 } else { self.free.newest(&self.entries) }?;
        self.take_free(index);
        Some(index)
    }

    fn take_free(&mut self, index: u32) {
        self.free.remove(&mut self.entries, index);
        self.reset(index, true);
    }

    /// Forgets the block. That the entry was hit in this period stays known (`cache_hit_bits` is by cache block).
    fn reset(&mut self, index: u32, allocated: bool) {
        let period = std::mem::replace(self.entry(index), Entry::FREE).period;
        self.entry(index).period = period;
        self.entry(index).set(Entry::ALLOCATED, allocated);
    }

    fn release(&mut self, index: u32) {
        if self.entries[index as usize].has(Entry::DIRTY) {
            self.dirty_blocks -= 1;
        }
        self.reset(index, false);
        self.free.push(&mut self.entries, index);
    }

    /// An access to a cached block: once in each period, it moves up one level.
    fn requeue(&mut self, index: u32) {
        let period = self.period;
        let entry = &mut self.entries[index as usize];
        if entry.has(Entry::PENDING) || entry.period == period {
            return;
        }
        entry.period = period;
        if entry.has(Entry::DIRTY) {
            let sentinels = self.writeback_sentinels.of_level(entry.level);
            self.dirty.requeue(&mut self.entries, index, 1, Some(sentinels));
        } else {
            self.clean.requeue(&mut self.entries, index, 1, None);
        }
    }

    fn access(&mut self, access: Access, issue: bool) -> (Lookup, Option<Work>) {
        let counts_hits = self.kernel.replaces();
        let mut level = if counts_hits { self.hotspot.access(access.block) } else { 0 };
        if let Some(index) = self.table.get(&self.entries, access.block) {
            self.cache_stats.count(Some(self.entries[index as usize].level));
            self.requeue(index);
            return (Lookup::Hit(index), None);
        }
        self.cache_stats.count(None);
        if !counts_hits {
            level = self.hotspot.access(access.block);
        }
        if !self.should_promote(access, level) {
            return (Lookup::Miss { background_work: false }, None);
        }
        let work = self.queue_promotion(access.block, issue);
        (Lookup::Miss { background_work: true }, work)
    }

    fn should_promote(&self, access: Access, level: u8) -> bool {
        if access.write {
            (access.fast_copy && self.free.len > 0) || level >= self.write_level
        } else {
            level >= self.read_level
        }
    }

    fn queue_promotion(&mut self, block: OriginBlock, issue: bool) -> Option<Work> {
        if !self.migrations_allowed {
            return None;
        }
        if self.kernel.replaces() {
            return self.replace(block, issue);
        }
        if self.free.len == 0 {
            // The kernel asks as if it were idle, so that blocks become free under load too.
            if !self.has_free_blocks() {
                self.queue_demotion();
            }
            return None;
        }
        if self.tracker.promoting.contains(&block) {
            return None;
        }
        let cache_block = self.allocate()?;
        if self.tracker.is_full() {
            self.release(cache_block); // it is now the last of the free blocks
            return None;
        }
        self.entry(cache_block).set(Entry::PENDING, true);
        self.tracker.add(Work { operation: Operation::Promote, origin_block: block, cache_block }, issue)
    }

    /// 4.11: a free block, or in one step the place of a clean block that was not used for a while.
    fn replace(&mut self, block: OriginBlock, issue: bool) -> Option<Work> {
        let (cache_block, operation) = if self.free.len > 0 {
            (self.allocate()?, Operation::Promote)
        } else {
            let index = self.clean.peek(&self.entries, LEVELS, false)?;
            let victim = self.entries[index as usize].block;
            self.clean.remove(&mut self.entries, index);
            self.table.remove(&self.entries, victim);
            self.reset(index, true);
            (index, Operation::Replace { victim })
        };
        self.entry(cache_block).block = block;
        self.entry(cache_block).set(Entry::PENDING, true);
        self.table.insert(&self.entries, cache_block);
        self.tracker.add(Work { operation, origin_block: block, cache_block }, issue)
    }

    /// Whether a quarter of the cache is free or will be (`free_target_met`).
    fn has_free_blocks(&self) -> bool {
        self.free.len + self.tracker.demotions >= percent_of(self.cache_blocks, 25)
    }

    /// Whether nothing must be written back now (`clean_target_met`).
    fn is_clean_enough(&self, idle: bool) -> bool {
        if idle || self.cleaner {
            self.dirty.len == 0
        } else {
            self.kernel >= SmqKernel::TracksAllIo
                || self.cache_blocks - self.dirty.len >= percent_of(self.cache_blocks, 25)
        }
    }

    fn queue_demotion(&mut self) {
        let limit = if self.kernel >= SmqKernel::LowerHalf { LEVELS / 2 } else { LEVELS };
        match self.clean.peek(&self.entries, limit, true) {
            Some(index) => self.queue_work(index, Operation::Demote),
            None if !self.is_clean_enough(self.kernel >= SmqKernel::WriteBackVictims) => self.queue_writeback(false),
            None => (),
        }
    }

    fn queue_writeback(&mut self, idle: bool) {
        let past_sentinels = match self.kernel {
            SmqKernel::V4_2 => false,
            SmqKernel::V4_15 => idle,
            _ => !self.is_clean_enough(false),
        };
        // 4.11 keeps the lowest level clean under load, and more only if little is clean.
        let lowest_only = self.kernel.replaces() && !idle && self.is_clean_enough(false);
        let limit = if lowest_only { 1 } else { LEVELS };
        if let Some(index) = self.dirty.peek(&self.entries, limit, past_sentinels) {
            self.queue_work(index, Operation::Writeback);
        }
    }

    /// Queues work on a cached block, which leaves its queue meanwhile.
    fn queue_work(&mut self, cache_block: u32, operation: Operation) {
        self.remove_from_queue(cache_block);
        if self.tracker.is_full() {
            let (queue, entries) = self.queue_of(cache_block);
            return queue.push_front(entries, cache_block);
        }
        self.entry(cache_block).set(Entry::PENDING, true);
        let origin_block = self.entries[cache_block as usize].block;
        self.tracker.add(Work { operation, origin_block, cache_block }, false);
    }

    /// Finds work that no miss asked for.
    fn find_work(&mut self, idle: bool) {
        if self.kernel.replaces() {
            self.queue_writeback(idle);
        } else if self.kernel < SmqKernel::NoPreemptiveDemotion
            && idle
            && self.migrations_allowed
            && !self.has_free_blocks()
        {
            self.queue_demotion();
        } else if !self.is_clean_enough(idle) {
            self.queue_writeback(idle || self.cleaner);
        }
    }

    /// The levels from which misses are promoted (`update_promote_levels`).
    fn update_promote_levels(&mut self) {
        let (levels, more_for_writes) = if !self.kernel.replaces() {
            (LEVELS as u8, 0)
        } else if self.free.len > 0 {
            (LEVELS as u8 / 2, 2)
        } else {
            (PROMOTE_LEVELS[self.cache_stats.share(16) as usize], 2)
        };
        self.read_level = LEVELS as u8 - levels / self.hotspot.stats.assess();
        self.write_level = self.read_level + more_for_writes;
    }

    fn set_or_clear_dirty(&mut self, index: u32, dirty: bool) {
        let entry = self.entries[index as usize];
        if entry.has(Entry::DIRTY) != dirty {
            self.dirty_blocks = if dirty { self.dirty_blocks + 1 } else { self.dirty_blocks - 1 };
        }
        if entry.has(Entry::PENDING) {
            return self.entry(index).set(Entry::DIRTY, dirty);
        }
        self.remove_from_queue(index);
        self.entry(index).set(Entry::DIRTY, dirty);
        self.push(index);
    }
}

impl Policy for Smq {
    fn lookup(&mut self, access: Access) -> Lookup {
        self.access(access, false).0
    }

    fn lookup_with_work(&mut self, access: Access) -> (Lookup, Option<Work>) {
        self.access(access, true)
    }

    fn get_background_work(&mut self, idle: bool) -> Option<Work> {
        if self.tracker.queued.is_empty() {
            self.find_work(idle);
        }
        self.tracker.queued.pop()
    }

    fn complete_background_work(&mut self, work: Work, success: bool) {
        let index = work.cache_block;
        self.entry(index).set(Entry::PENDING, false);
        match work.operation {
            Operation::Promote | Operation::Replace { .. } if success => {
                if !self.kernel.replaces() {
                    self.entry(index).block = work.origin_block;
                    self.table.insert(&self.entries, index);
                }
                let top = self.kernel >= SmqKernel::TopLevel;
                self.entry(index).level = if top { LEVELS as u8 - 1 } else { 0 };
                self.push(index);
            }
            Operation::Demote if !success => self.push(index),
            Operation::Writeback => self.push(index),
            Operation::Promote | Operation::Replace { .. } | Operation::Demote => {
                if work.operation == Operation::Demote || self.kernel.replaces() {
                    self.table.remove(&self.entries, work.origin_block);
                }
                self.release(index);
            }
        }
        self.tracker.complete(work);
    }

    fn set_dirty(&mut self, block: CacheBlock) {
        self.set_or_clear_dirty(block, true);
    }

    fn clear_dirty(&mut self, block: CacheBlock) {
        self.set_or_clear_dirty(block, false);
    }

    fn load_mapping(
        &mut self, from: OriginBlock, to: CacheBlock, dirty: bool, hint: Option<u32>,
    ) -> Result<(), LoadError> {
        if to >= self.cache_blocks || self.entries[to as usize].has(Entry::ALLOCATED) {
            return Err(LoadError::CacheBlock);
        }
        if self.cached_at(from).is_some() {
            return Err(LoadError::OriginBlock);
        }
        self.take_free(to);
        // hash_32(block, 9) & 63, for blocks without a hint.
        let scattered = || to.wrapping_mul(0x61c8_8647) >> 23 & (LEVELS as u32 - 1);
        let entry = self.entry(to);
        (entry.block, entry.level) = (from, hint.unwrap_or_else(scattered).min(LEVELS as u32 - 1) as u8);
        entry.set(Entry::DIRTY, dirty);
        self.dirty_blocks += u32::from(dirty);
        self.table.insert(&self.entries, to);
        let (queue, entries) = self.queue_of(to);
        queue.push_front(entries, to);
        Ok(())
    }

    fn invalidate_mapping(&mut self, block: CacheBlock) -> bool {
        let entry = self.entries[block as usize];
        if !entry.has(Entry::ALLOCATED) || entry.has(Entry::PENDING) {
            return false;
        }
        self.remove_from_queue(block);
        self.table.remove(&self.entries, entry.block);
        self.release(block);
        true
    }

    fn get_hint(&self, block: CacheBlock) -> u32 {
        u32::from(self.entries[block as usize].level)
    }

    fn residency(&self) -> CacheBlock {
        self.cache_blocks - self.free.len
    }

    fn dirty_blocks(&self) -> CacheBlock {
        self.dirty_blocks
    }

    fn tick(&mut self, now_ns: u64) {
        self.writeback_sentinels.tick(now_ns, &mut self.entries, &mut self.dirty);
        self.demote_sentinels.tick(now_ns, &mut self.entries, &mut self.clean);
        self.update_promote_levels();
        self.hotspot.tick(now_ns);
        if now_ns > self.next_period_ns {
            // The number 0 is that of entries that were never hit.
            self.period = self.period.checked_add(1).unwrap_or(1);
            self.dirty.redistribute(&mut self.entries);
            self.clean.redistribute(&mut self.entries);
            self.cache_stats.restart();
            let seconds = if self.kernel.replaces() { 10 } else { 60 };
            self.next_period_ns = now_ns + seconds * 1_000_000_000;
        }
    }

    fn allow_migrations(&mut self, allow: bool) {
        self.migrations_allowed = allow && !self.cleaner;
    }

    fn cached_at(&self, block: OriginBlock) -> Option<CacheBlock> {
        self.table.get(&self.entries, block)
    }

    fn memory_bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.table.memory_bytes() + self.hotspot.memory_bytes()
    }
}

/// A percentage of a number of blocks, rounded down.
fn percent_of(blocks: u32, percent: u64) -> u32 {
    (u64::from(blocks) * percent / 100) as u32
}

// Background work that is queued or running (`dm-cache-background-tracker.c`).

/// The work of a policy.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    pub queued: Vec<Work>,               // work to issue; the newest is issued first
    pub promoting: HashSet<OriginBlock>, // blocks whose promotion is queued or running
    pending: usize,
    pub demotions: u32, // demotions that are queued or running
    limit: Option<usize>,
}

impl Tracker {
    /// A tracker that refuses work above the limit.
    pub fn new(limit: Option<usize>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether another piece of work would be refused.
    pub fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.pending >= limit)
    }

    /// Adds work; with `issue` it is running at once, and is returned.
    pub fn add(&mut self, work: Work, issue: bool) -> Option<Work> {
        self.pending += 1;
        self.demotions += u32::from(work.operation == Operation::Demote);
        if work.operation == Operation::Promote {
            self.promoting.insert(work.origin_block);
        }
        if issue {
            return Some(work);
        }
        self.queued.push(work);
        None
    }

    /// The work is done.
    pub fn complete(&mut self, work: Work) {
        self.pending -= 1;
        self.demotions -= u32::from(work.operation == Operation::Demote);
        if work.operation == Operation::Promote {
            self.promoting.remove(&work.origin_block);
        }
    }
}
