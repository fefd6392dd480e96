//! dm-cache's target, as far as it decides what the policy sees (`dm-cache-target.c`): for the replay of traces.

use crate::policy::{Access, Geometry, Lookup, Operation, Policy, Work};
use crate::replay::{Counts, Op, Replay, Request};
use crate::sampler::Sampler;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

const SECOND_NS: u64 = 1_000_000_000;
/// How long I/O takes, which decides when ticks happen and how long blocks are not yet cached: an SSD as the cache, and
/// one random access of a hard disk. A copy of a block takes as long as a miss.
const HIT_NS: u64 = 100_000;
const MISS_NS: u64 = 10_000_000;
/// Migrations that run at the same time at most (the mempool of the target).
const MOST_MIGRATIONS: usize = 128;
/// Idle ticks that are simulated at most: after two periods of 60 s nothing changes any more.
const MOST_IDLE_TICKS: u64 = 600;

/// What a dm-cache does with writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheMode {
    /// A write to a cached block goes to the cache and to the origin.
    Writethrough,
    /// A write to a cached block goes to the cache, and later to the origin.
    Writeback,
    /// All I/O goes to the origin; a write to a cached block removes it from the cache.
    Passthrough,
}

/// Bios that are in flight in a trace with completions, which says when they end.
#[derive(Debug, Default)]
struct InFlight {
    misses: HashMap<u64, u64>, // The first sectors of those that missed, and when they were queued
    carrier: Option<(u64, u64)>, // The first sector of the one that carries the tick, and when it was queued
}

/// A completion that did not come in this time is lost.
const LOST_NS: u64 = 30 * SECOND_NS;

/// When dm-cache ticks: one bio at a time carries the tick and the policy ticks when it ends; and once a second.
#[derive(Clone, Copy, Debug)]
pub struct TickClock {
    carrier_ends_ns: u64,
    second_ns: u64,
}

impl TickClock {
    /// The next tick that is due at `now_ns`, and whether it is that of a second.
    pub fn due(&mut self, now_ns: u64) -> Option<(u64, bool)> {
        if self.carrier_ends_ns <= now_ns && self.carrier_ends_ns <= self.second_ns {
            return Some((std::mem::replace(&mut self.carrier_ends_ns, u64::MAX), false));
        }
        if self.second_ns > now_ns {
            return None;
        }
        let due = self.second_ns.max(now_ns.saturating_sub(MOST_IDLE_TICKS * SECOND_NS));
        self.second_ns = due + SECOND_NS;
        Some((due, true))
    }

    /// A bio is mapped: it carries the tick unless another one does.
    pub fn map_bio(&mut self, ends_ns: u64) {
        if self.carrier_ends_ns == u64::MAX {
            self.carrier_ends_ns = ends_ns;
        }
    }
}

/// A cached volume.
pub struct DmCache<P: Policy + ?Sized> {
    geometry: Geometry,
    mode: CacheMode,
    miss_ns: u64,
    copy_ns: u64,
    counts: Counts,
    clock: TickClock,
    in_flight: Option<InFlight>,
    running: VecDeque<(u64, Work)>, // promotions and writebacks that run, with their ends
    last_end_ns: u64,
    discarded: Vec<bool>, // discard blocks that are discarded, and the sectors of one
    discard_sectors: u64,
    sampler: Sampler,
    pub policy: Box<P>,
}

impl<P: Policy + ?Sized> DmCache<P> {
    /// A volume with this policy.
    pub fn new(policy: Box<P>, geometry: Geometry, mode: CacheMode) -> Self {
        let origin = geometry.origin_blocks.saturating_mul(u64::from(geometry.block_sectors));
        let mut discard_sectors = u64::from(geometry.block_sectors);
        while origin.div_ceil(discard_sectors) > 16_384 {
            discard_sectors *= 2;
        }
        let mut volume = Self {
            geometry,
            mode,
            miss_ns: MISS_NS,
            copy_ns: MISS_NS,
            counts: Counts::default(),
            clock: TickClock { carrier_ends_ns: u64::MAX, second_ns: SECOND_NS },
            in_flight: None,
            running: VecDeque::new(),
            last_end_ns: 0,
            discarded: vec![false; origin.div_ceil(discard_sectors) as usize],
            discard_sectors,
            sampler: Sampler::ALL,
            policy,
        };
        if mode == CacheMode::Passthrough {
            volume.policy.allow_migrations(false);
        }
        volume
    }

    /// Replays only the regions that the sampler takes; the others carry ticks, with a mean latency.
    pub fn sampled(self, sampler: Sampler) -> Self {
        Self { sampler, ..self }
    }

    /// Takes latencies from the trace, which has completions, instead of assuming them.
    pub fn with_completions(self) -> Self {
        Self { in_flight: Some(InFlight::default()), ..self }
    }

    fn pass_over(&mut self, now_ns: u64) {
        let Counts { reads, read_hits, writes, write_hits, .. } = self.counts;
        let (all, hits) = ((reads + writes).max(1), read_hits + write_hits);
        let latency = (hits * HIT_NS + all.saturating_sub(hits) * self.miss_ns) / all;
        self.clock.map_bio(now_ns.saturating_add(latency));
    }

    /// Lets time pass: work ends, the policy ticks, and an idle volume writes back.
    fn advance(&mut self, now_ns: u64) {
        while let Some((due, second)) = self.clock.due(now_ns) {
            self.finish_work(due);
            self.policy.tick(due);
            if second && due > self.last_end_ns.saturating_add(SECOND_NS) {
                self.write_back_when_idle(due);
            }
        }
        if !self.running.is_empty() {
            self.finish_work(now_ns);
        }
    }

    fn finish_work(&mut self, now_ns: u64) {
        while let Some(&(end, work)) = self.running.front()
            && end <= now_ns
        {
            self.running.pop_front();
            self.complete(work);
            self.start_work(now_ns);
        }
    }

    fn complete(&mut self, work: Work) {
        self.policy.complete_background_work(work, true);
        let is_replaced = matches!(work.operation, Operation::Replace { .. });
        self.counts.promotions += u64::from(is_replaced || work.operation == Operation::Promote);
        self.counts.demotions += u64::from(is_replaced || work.operation == Operation::Demote);
        if work.operation == Operation::Writeback {
            self.policy.clear_dirty(work.cache_block);
            self.counts.writebacks += 1;
        }
    }

    /// Starts all work that is queued; a demotion copies nothing and ends at once.
    fn start_work(&mut self, now_ns: u64) {
        while self.running.len() < MOST_MIGRATIONS
            && let Some(work) = self.policy.get_background_work(false)
        {
            match work.operation {
                Operation::Demote => self.complete(work),
                _ => self.running.push_back((now_ns + self.copy_ns, work)),
            }
        }
    }

    /// What can be written back in a second: migration_threshold is eight blocks at a time.
    fn write_back_when_idle(&mut self, now_ns: u64) {
        for _ in 0..8 * (SECOND_NS / self.copy_ns.max(1)).clamp(1, 10_000) {
            let Some(work) = self.policy.get_background_work(true) else { return };
            self.complete(work);
        }
        self.start_work(now_ns);
    }

    fn discard_block(&mut self, block: u64) -> &mut bool {
        let number = block * u64::from(self.geometry.block_sectors) / self.discard_sectors;
        &mut self.discarded[number as usize]
    }

    /// Marks the discard blocks that lie in the range as a whole.
    fn discard(&mut self, sector: u64, sectors: u32) {
        let first = sector.div_ceil(self.discard_sectors) as usize;
        let end = (sector.saturating_add(u64::from(sectors)) / self.discard_sectors) as usize;
        if let Some(range) = self.discarded.get_mut(first..end) {
            range.fill(true);
        }
    }

    /// A write waits for the promotion of its block, and is then looked up.
    fn wait_for_promotion(&mut self, block: u64) {
        let is_same = |(_, work): &(u64, Work)| work.origin_block == block;
        if let Some((_, work)) = self.running.iter().position(is_same).and_then(|index| self.running.remove(index)) {
            self.complete(work);
        }
    }

    /// One bio within one block.
    fn map_bio(&mut self, request: &Request, block: u64, sector: u64, sectors: u32) {
        let write = request.op != Op::Read;
        if write && !self.running.is_empty() {
            self.wait_for_promotion(block);
        }
        let whole = sectors == self.geometry.block_sectors;
        let fast_copy = write && self.mode == CacheMode::Writeback && (whole || *self.discard_block(block));
        let access = Access { block, sector, sectors, write, fast_copy };
        let lookup = if fast_copy {
            let (lookup, work) = self.policy.lookup_with_work(access);
            if let Some(work) = work {
                self.complete(work);
                self.policy.set_dirty(work.cache_block);
                *self.discard_block(block) = false;
                self.counts.overwrites += 1;
                return;
            }
            lookup
        } else {
            self.policy.lookup(access)
        };
        let hit = matches!(lookup, Lookup::Hit(_));
        if write {
            self.counts.writes += 1;
            self.counts.write_hits += u64::from(hit);
            *self.discard_block(block) = false;
        } else {
            self.counts.reads += 1;
            self.counts.read_hits += u64::from(hit);
        }
        match lookup {
            Lookup::Hit(cached) if write && self.mode == CacheMode::Writeback => self.policy.set_dirty(cached),
            Lookup::Hit(cached) if write && self.mode == CacheMode::Passthrough => {
                self.counts.demotions += u64::from(self.policy.invalidate_mapping(cached));
            }
            Lookup::Miss { background_work: true } => self.start_work(request.time_ns),
            _ => (),
        }
        let latency = if hit { HIT_NS } else { self.miss_ns };
        self.last_end_ns = self.last_end_ns.max(request.time_ns.saturating_add(latency));
        let Some(in_flight) = &mut self.in_flight else {
            return self.clock.map_bio(request.time_ns.saturating_add(latency));
        };
        let lost = request.time_ns.saturating_sub(LOST_NS);
        if in_flight.carrier.is_none_or(|(_, begun)| begun < lost) {
            in_flight.carrier = Some((request.sector, request.time_ns));
            in_flight.misses.retain(|_, begun| *begun >= lost);
        }
        if !hit {
            in_flight.misses.insert(request.sector, request.time_ns);
        }
    }
}

impl<P: Policy + ?Sized> Replay for DmCache<P> {
    fn request(&mut self, request: &Request) {
        self.advance(request.time_ns);
        match request.op {
            Op::Flush => return,
            Op::Discard => return self.discard(request.sector, request.sectors),
            Op::Read | Op::Write { .. } => (),
        }
        let size = u64::from(self.geometry.block_sectors);
        let (mut sector, end) = (request.sector, request.sector.saturating_add(u64::from(request.sectors)));
        while sector < end {
            let block = sector / size;
            if block >= self.geometry.origin_blocks {
                return;
            }
            let next = end.min((block + 1) * size);
            if self.sampler.takes(block) {
                self.map_bio(request, block, sector, (next - sector) as u32);
            } else {
                self.pass_over(request.time_ns);
            }
            sector = next;
        }
    }

    fn complete(&mut self, time_ns: u64, sector: u64) {
        self.advance(time_ns);
        let Some(in_flight) = &mut self.in_flight else { return };
        if let Some(begun) = in_flight.misses.remove(&sector) {
            // A copy waits for the bio that missed, and then reads the origin as well.
            let latency = (7 * self.miss_ns + time_ns.saturating_sub(begun)) / 8;
            (self.miss_ns, self.copy_ns) = (latency, 2 * latency);
        }
        if in_flight.carrier.take_if(|(carrier, _)| *carrier == sector).is_some() {
            self.policy.tick(time_ns);
        }
    }

    fn counts(&self) -> Counts {
        Counts { dirty: u64::from(self.policy.dirty_blocks()), ..self.counts }
    }

    fn memory_bytes(&self) -> usize {
        self.policy.memory_bytes() + self.discarded.len()
    }
}
