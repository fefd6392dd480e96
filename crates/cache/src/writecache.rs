//! dm-writecache in SSD mode (4.18 and later, `dm-writecache.c`): which writes the cache takes, and when it writes back.

use crate::entry::Hashing;
use crate::replay::{Counts, Op, Replay, Request};
use std::collections::{BTreeMap, HashMap, VecDeque};

const SECOND_NS: u64 = 1_000_000_000;
const PAUSE_NS: u64 = 3 * SECOND_NS; // `pause_writeback`: no writeback for so long after an I/O to the origin
const AUTOCOMMIT_NS: u64 = SECOND_NS; // `autocommit_time`
const AUTOCOMMIT_BLOCKS: u64 = 65_536; // `autocommit_blocks`, of an SSD

/// A cache, with the names of its table.
#[derive(Clone, Copy, Debug)]
pub struct WritecacheSettings {
    pub blocks: u64,
    pub block_sectors: u32,      // 8 at most
    pub high_watermark: u64,     // percent in use at which writeback starts: 50
    pub low_watermark: u64,      // percent at which it stops: 45
    pub max_age_ns: Option<u64>, // older blocks are written back anyway
    pub writeback_rate: u64,     // blocks a second that the origin takes, which only the replay uses
}

#[derive(Clone, Copy, Debug)]
struct Block {
    written_ns: u64,
    commit: u64, // the number of the commit that makes it durable
}

/// What a write to one block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockWrite {
    Overwritten,
    Allocated,
    Around, // no block is free: it goes to the origin
    Waits,  // no block is free, but an old copy is cached
}

/// The cache.
pub struct Writecache {
    settings: WritecacheSettings,
    blocks: BTreeMap<u64, Block>,
    superseded: HashMap<u64, u64, Hashing>, // older committed copies, by the commit that frees them: their number
    ages: VecDeque<(u64, u64)>,
    used: u64,
    commit: u64,
    uncommitted: u64,
    overwrote_committed: bool,
    next_commit_ns: u64,
    origin_busy_until_ns: u64,
    last_ns: u64,
    is_writing_back: bool,
    counts: Counts,
}

impl Writecache {
    pub fn new(settings: WritecacheSettings) -> Self {
        Self {
            settings,
            blocks: BTreeMap::new(),
            superseded: HashMap::default(),
            ages: VecDeque::new(),
            used: 0,
            commit: 1,
            uncommitted: 0,
            overwrote_committed: false,
            next_commit_ns: AUTOCOMMIT_NS,
            origin_busy_until_ns: 0,
            last_ns: 0,
            is_writing_back: false,
            counts: Counts::default(),
        }
    }

    /// Whether a block is cached.
    pub fn contains(&self, block: u64) -> bool {
        self.blocks.contains_key(&block)
    }

    /// Blocks in use, older copies included.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Writes one block.
    pub fn write(&mut self, now_ns: u64, block: u64) -> BlockWrite {
        let old = self.blocks.get(&block).copied();
        if let Some(old) = old
            && (old.commit == self.commit || !std::mem::replace(&mut self.overwrote_committed, true))
        {
            return BlockWrite::Overwritten;
        }
        if self.used >= self.settings.blocks {
            return if old.is_some() { BlockWrite::Waits } else { BlockWrite::Around };
        }
        if old.is_some() {
            *self.superseded.entry(self.commit).or_default() += 1;
        }
        self.used += 1;
        self.uncommitted += 1;
        self.blocks.insert(block, Block { written_ns: now_ns, commit: self.commit });
        self.ages.push_back((now_ns, block));
        if self.uncommitted >= AUTOCOMMIT_BLOCKS {
            self.commit(now_ns);
        }
        BlockWrite::Allocated
    }

    /// Makes all writes durable, as a FLUSH does; older copies are free then.
    pub fn commit(&mut self, now_ns: u64) {
        self.used -= self.superseded.remove(&self.commit).unwrap_or(0);
        self.commit += 1;
        (self.uncommitted, self.overwrote_committed) = (0, false);
        self.next_commit_ns = now_ns.saturating_add(AUTOCOMMIT_NS);
    }

    /// Removes a block that was discarded or written back; false if it is not cached or not durable.
    pub fn remove(&mut self, block: u64, discarded: bool) -> bool {
        let removable = self.blocks.get(&block).is_some_and(|cached| discarded || cached.commit < self.commit);
        if removable {
            self.blocks.remove(&block);
            self.used -= 1;
        }
        removable
    }

    /// The next durable block to write back, in order of sectors from `from` on; `None` if nothing must be written now.
    pub fn next_writeback(&mut self, now_ns: u64, from: u64) -> Option<u64> {
        let percent = |percent: u64| self.settings.blocks * percent / 100;
        self.is_writing_back = self.used
            > percent(if self.is_writing_back { self.settings.low_watermark } else { self.settings.high_watermark });
        let is_durable = |(_, block): &(&u64, &Block)| block.commit < self.commit;
        if self.is_writing_back && now_ns >= self.origin_busy_until_ns {
            let next = self.blocks.range(from..).find(is_durable);
            return next.or_else(|| self.blocks.iter().find(is_durable)).map(|(&block, _)| block);
        }
        let limit = now_ns.checked_sub(self.settings.max_age_ns?)?;
        while let Some(&(written, block)) = self.ages.front()
            && written <= limit
        {
            if self.blocks.get(&block).is_some_and(|cached| cached.written_ns == written && cached.commit < self.commit)
            {
                return Some(block);
            }
            self.ages.pop_front();
        }
        None
    }

    /// An I/O goes to the origin: writeback pauses.
    pub fn use_origin(&mut self, now_ns: u64) {
        self.origin_busy_until_ns = now_ns.saturating_add(PAUSE_NS);
    }

    fn advance(&mut self, now_ns: u64) {
        if self.uncommitted > 0 && self.next_commit_ns <= now_ns {
            self.commit(self.next_commit_ns);
        }
        let since = now_ns - self.last_ns.max(self.origin_busy_until_ns.min(now_ns));
        let (mut left, mut from) = (since.saturating_mul(self.settings.writeback_rate) / SECOND_NS, 0);
        if left > 0 || self.origin_busy_until_ns > now_ns {
            self.last_ns = now_ns;
        }
        while left > 0
            && let Some(block) = self.next_writeback(now_ns, from)
        {
            self.remove(block, false);
            self.counts.writebacks += 1;
            (left, from) = (left - 1, block + 1);
        }
    }
}

impl Replay for Writecache {
    fn request(&mut self, request: &Request) {
        self.advance(request.time_ns);
        if request.op == Op::Flush {
            return self.commit(request.time_ns);
        }
        let size = u64::from(self.settings.block_sectors);
        let end = request.sector.saturating_add(u64::from(request.sectors));
        let blocks = request.sector / size..end.div_ceil(size);
        match request.op {
            Op::Read => {
                let hits = blocks.clone().filter(|&block| self.contains(block)).count() as u64;
                self.counts.reads += blocks.end - blocks.start;
                self.counts.read_hits += hits;
                if hits < blocks.end - blocks.start {
                    self.use_origin(request.time_ns);
                }
            }
            Op::Write { .. } => {
                for block in blocks {
                    self.counts.writes += 1;
                    let mut written = self.write(request.time_ns, block);
                    if written == BlockWrite::Waits {
                        // It waits for a commit and a writeback, which end at once here.
                        self.commit(request.time_ns);
                        self.remove(block, true);
                        written = self.write(request.time_ns, block);
                    }
                    match written {
                        BlockWrite::Around => self.use_origin(request.time_ns),
                        BlockWrite::Overwritten => self.counts.write_hits += 1,
                        BlockWrite::Allocated | BlockWrite::Waits => {
                            self.counts.write_hits += 1;
                            self.counts.promotions += 1;
                        }
                    }
                }
            }
            Op::Discard | Op::Flush => {
                while let Some((&block, _)) = self.blocks.range(blocks.clone()).next() {
                    self.remove(block, true);
                }
            }
        }
    }

    fn counts(&self) -> Counts {
        Counts { dirty: self.blocks.len() as u64, demotions: self.counts.writebacks, ..self.counts }
    }

    fn memory_bytes(&self) -> usize {
        self.blocks.len() * 40 + self.ages.len() * 16
    }
}
