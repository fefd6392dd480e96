//! smq against a slow model, which is written from the rules with plain vectors, and against figures added up by hand.

use blklab_cache::{Access, Geometry, Lookup, Operation, Policy, Smq, SmqKernel, Work};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

const SECOND: u64 = 1_000_000_000;

fn access(block: u64, write: bool, fast_copy: bool) -> Access {
    Access { block, sector: block * 128, sectors: 8, write, fast_copy }
}

/// An item of a list: a block (of the cache, or a hotspot block) or a sentinel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Block(u64),
    Sentinel(usize),
}

/// A multiqueue as the rules describe it: 64 lists, the oldest first.
#[derive(Clone, Debug)]
struct Lists {
    levels: Vec<Vec<Item>>,
    top: (usize, usize),
}

impl Lists {
    fn new(top: (usize, usize), sentinels: bool) -> Self {
        let list = if sentinels { vec![Item::Sentinel(0), Item::Sentinel(1)] } else { vec![] };
        Self { levels: vec![list; 64], top }
    }

    fn count(list: &[Item]) -> usize {
        list.iter().filter(|item| matches!(item, Item::Block(_))).count()
    }

    fn len(&self) -> usize {
        self.levels.iter().map(|list| Self::count(list)).sum()
    }

    fn find(&self, block: u64) -> Option<(usize, usize)> {
        self.levels.iter().enumerate().find_map(|(level, list)| {
            list.iter().position(|&item| item == Item::Block(block)).map(|position| (level, position))
        })
    }

    fn take(&mut self, block: u64) -> Option<usize> {
        let (level, position) = self.find(block)?;
        self.levels[level].remove(position);
        Some(level)
    }

    fn peek(&self, limit: usize, past_sentinels: bool) -> Option<u64> {
        for list in &self.levels[..limit] {
            for item in list {
                match item {
                    Item::Block(block) => return Some(*block),
                    Item::Sentinel(_) if past_sentinels => (),
                    Item::Sentinel(_) => break,
                }
            }
        }
        None
    }

    /// `newer`: which sentinel moved last; without it, sentinels do not matter.
    fn move_up(&mut self, block: u64, jump: usize, newer: Option<usize>) {
        let (old, _) = self.find(block).unwrap();
        let new = (old + jump).min(63);
        if new > old
            && let Some(position) = self.levels[new].iter().position(|item| matches!(item, Item::Block(_)))
        {
            let other = self.levels[new].remove(position);
            let before = match (newer, position) {
                (Some(newer), 0) => Some(1 - newer),
                (Some(newer), 1) => Some(newer),
                _ => None,
            };
            let list = &mut self.levels[old];
            let at = before.and_then(|which| list.iter().position(|&item| item == Item::Sentinel(which)));
            list.insert(at.unwrap_or(list.len()), other);
        }
        self.take(block);
        self.levels[new].push(Item::Block(block));
    }

    fn redistribute(&mut self) {
        let (levels, entries) = self.top;
        let below = self.len().saturating_sub(entries);
        let share = |level: usize| {
            let (total, of, index) = if level >= 64 - levels {
                (entries, levels, level - (64 - levels))
            } else {
                (below, 64 - levels, level)
            };
            total / of + usize::from(index < total % of)
        };
        for level in 0..63 {
            while Self::count(&self.levels[level]) < share(level) {
                let Some(above) = (level + 1..64).find(|&above| Self::count(&self.levels[above]) > 0) else { break };
                let position = self.levels[above].iter().position(|item| matches!(item, Item::Block(_))).unwrap();
                let item = self.levels[above].remove(position);
                self.levels[level].push(item);
            }
            while Self::count(&self.levels[level]) > share(level) {
                let position = self.levels[level].iter().rposition(|item| matches!(item, Item::Block(_))).unwrap();
                let item = self.levels[level].remove(position);
                self.levels[level + 1].push(item);
            }
        }
    }
}

fn assess(upper: u64, all: u64) -> usize {
    match (upper * 256).checked_div(all).unwrap_or(0) {
        0..16 => 4,
        16..32 => 2,
        _ => 1,
    }
}

/// smq of 4.12 and later, written from the rules.
struct Model {
    kernel: SmqKernel,
    blocks: usize,
    region: u64,
    hot: Lists,
    hot_entries: usize,
    hot_hits: HashSet<u64>,
    hot_stats: (u64, u64),
    jump: usize,
    promote_level: usize,
    queues: [Lists; 2],
    newer: [usize; 2],
    /// Cache block of each origin block.
    map: HashMap<u64, u64>,
    origin: HashMap<u64, u64>,
    levels: HashMap<u64, usize>,
    dirty: HashSet<u64>,
    pending: HashSet<u64>,
    hits: HashSet<u64>,
    free: Vec<u64>,
    work: Vec<Work>,
    all_work: Vec<Work>,
    due: [u64; 4],
}

impl Model {
    fn new(geometry: Geometry, kernel: SmqKernel) -> Self {
        let blocks = geometry.cache_blocks as usize;
        let hot_entries = (blocks / 4).max(1024);
        let mut region = 16;
        while region > 1 && hot_entries as u64 * region > geometry.origin_blocks {
            region /= 2;
        }
        Self {
            kernel,
            blocks,
            region,
            hot: Lists::new((8, (hot_entries / 64).min(blocks / region as usize)), false),
            hot_entries,
            hot_hits: HashSet::new(),
            hot_stats: (0, 0),
            jump: 1,
            promote_level: 64,
            queues: [Lists::new((0, 0), true), Lists::new((0, 0), true)],
            newer: [1, 1],
            map: HashMap::new(),
            origin: HashMap::new(),
            levels: HashMap::new(),
            dirty: HashSet::new(),
            pending: HashSet::new(),
            hits: HashSet::new(),
            free: (0..blocks as u64).collect(),
            work: vec![],
            all_work: vec![],
            due: [0, 0, 60 * SECOND, 10 * SECOND],
        }
    }

    fn queue(&mut self, block: u64) -> &mut Lists {
        &mut self.queues[usize::from(self.dirty.contains(&block))]
    }

    fn lookup(&mut self, access: Access, issue: bool) -> (Option<u64>, Option<Work>) {
        if let Some(&block) = self.map.get(&access.block) {
            if !self.pending.contains(&block) && self.hits.insert(block) {
                let dirty = self.dirty.contains(&block);
                let newer = dirty.then_some(self.newer[1]);
                self.queue(block).move_up(block, 1, newer);
            }
            return (Some(block), None);
        }
        let region = access.block / self.region;
        let level = match self.hot.find(region) {
            Some((level, _)) => {
                self.hot_stats.0 += u64::from(level >= 48);
                self.hot_stats.1 += 1;
                let jump = if self.hot_hits.insert(region) { self.jump } else { 0 };
                self.hot.move_up(region, jump, None);
                self.hot.find(region).unwrap().0
            }
            None => {
                self.hot_stats.1 += 1;
                let mut level = 0;
                if self.hot.len() == self.hot_entries {
                    let gone = self.hot.peek(64, true).unwrap();
                    self.hot_hits.remove(&gone);
                    level = self.hot.take(gone).unwrap();
                }
                self.hot.levels[level].push(Item::Block(region));
                level
            }
        };
        let promote = level >= self.promote_level || (access.write && access.fast_copy && !self.free.is_empty());
        (None, if promote { self.promote(access.block, issue) } else { None })
    }

    fn demotions(&self) -> usize {
        self.all_work.iter().filter(|work| work.operation == Operation::Demote).count()
    }

    fn promote(&mut self, origin_block: u64, issue: bool) -> Option<Work> {
        if self.free.is_empty() {
            if self.demotions() < self.blocks * 25 / 100 {
                self.demote();
            }
            return None;
        }
        let promoting = |work: &Work| work.operation == Operation::Promote && work.origin_block == origin_block;
        if self.all_work.iter().any(promoting) {
            return None;
        }
        let block = if self.kernel >= SmqKernel::V4_15 { self.free.remove(0) } else { self.free.pop().unwrap() };
        self.pending.insert(block);
        let work = Work { operation: Operation::Promote, origin_block, cache_block: block as u32 };
        self.all_work.push(work);
        if issue {
            return Some(work);
        }
        self.work.push(work);
        None
    }

    fn demote(&mut self) {
        let limit = if self.kernel >= SmqKernel::LowerHalf { 32 } else { 64 };
        let dirty = self.queues[1].len();
        let clean_enough = match self.kernel {
            SmqKernel::V4_12Rc1 | SmqKernel::IdleTime | SmqKernel::LowerHalf => {
                self.blocks - dirty >= self.blocks * 25 / 100
            }
            _ => dirty == 0,
        };
        match self.queues[0].peek(limit, true) {
            Some(block) => self.begin(block, Operation::Demote),
            None if !clean_enough => self.write_back(false),
            None => (),
        }
    }

    fn write_back(&mut self, idle: bool) {
        let little_clean = self.blocks - self.queues[1].len() < self.blocks * 25 / 100;
        let past = match self.kernel {
            SmqKernel::V4_15 => idle,
            SmqKernel::TracksAllIo => false,
            _ => little_clean,
        };
        if let Some(block) = self.queues[1].peek(64, past) {
            self.begin(block, Operation::Writeback);
        }
    }

    fn begin(&mut self, block: u64, operation: Operation) {
        let level = self.queue(block).take(block).unwrap();
        self.levels.insert(block, level);
        self.pending.insert(block);
        let work = Work { operation, origin_block: self.origin[&block], cache_block: block as u32 };
        self.work.push(work);
        self.all_work.push(work);
    }

    fn background(&mut self, idle: bool) -> Option<Work> {
        if self.work.is_empty() {
            let dirty = self.queues[1].len();
            let little_clean = self.blocks - dirty < self.blocks * 25 / 100;
            let write = if idle { dirty > 0 } else { self.kernel < SmqKernel::TracksAllIo && little_clean };
            if self.kernel < SmqKernel::NoPreemptiveDemotion
                && idle
                && self.free.len() + self.demotions() < self.blocks * 25 / 100
            {
                self.demote();
            } else if write {
                self.write_back(idle);
            }
        }
        self.work.pop()
    }

    fn complete(&mut self, work: Work, success: bool) {
        let block = u64::from(work.cache_block);
        self.all_work.retain(|other| *other != work);
        self.pending.remove(&block);
        match (work.operation, success) {
            (Operation::Promote, true) => {
                self.map.insert(work.origin_block, block);
                self.origin.insert(block, work.origin_block);
                let level = if self.kernel >= SmqKernel::TopLevel { 63 } else { 0 };
                self.queue(block).levels[level].push(Item::Block(block));
            }
            (Operation::Demote, true) => {
                self.map.remove(&work.origin_block);
                self.free(block);
            }
            (Operation::Promote, false) => self.free(block),
            _ => {
                let level = self.levels[&block];
                self.queue(block).levels[level].push(Item::Block(block));
            }
        }
    }

    fn free(&mut self, block: u64) {
        self.dirty.remove(&block);
        self.free.push(block);
    }

    fn set_dirty(&mut self, block: u64, dirty: bool) {
        let level = self.queue(block).take(block);
        if dirty {
            self.dirty.insert(block)
        } else {
            self.dirty.remove(&block)
        };
        if let Some(level) = level {
            self.queue(block).levels[level].push(Item::Block(block));
        }
    }

    fn tick(&mut self, now: u64) {
        for (queue, due, period) in [(1, 3, 10), (0, 2, 60)] {
            if now > self.due[due] {
                self.due[due] = now + period * SECOND;
                self.newer[queue] = 1 - self.newer[queue];
                let sentinel = Item::Sentinel(self.newer[queue]);
                for list in &mut self.queues[queue].levels {
                    list.retain(|item| *item != sentinel);
                    list.push(sentinel);
                }
            }
        }
        self.hot_hits.clear();
        self.promote_level = [0, 0, 32, 0, 48][assess(self.hot_stats.0, self.hot_stats.1)];
        if now > self.due[0] {
            self.jump = assess(self.hot_stats.0, self.hot_stats.1);
            self.hot.redistribute();
            self.hot_stats = (0, 0);
            self.due[0] = now + SECOND;
        }
        if now > self.due[1] {
            self.hits.clear();
            self.queues[0].redistribute();
            self.queues[1].redistribute();
            self.due[1] = now + 60 * SECOND;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Read(u64),
    Write(u64, bool),
    Overwrite(u64),
    Work(bool),
    Complete(usize, bool),
    Dirty(u32, bool),
    Tick(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = || prop_oneof![3 => 0..40u64, 2 => 0..400u64, 1 => 0..6000u64];
    let step = prop_oneof![
        12 => block().prop_map(Step::Read),
        4 => (block(), any::<bool>()).prop_map(|(block, fast)| Step::Write(block, fast)),
        1 => block().prop_map(Step::Overwrite),
        6 => any::<bool>().prop_map(Step::Work),
        8 => (0..8usize, prop::bool::weighted(0.95)).prop_map(|(which, success)| Step::Complete(which, success)),
        3 => (0..70u32, any::<bool>()).prop_map(|(block, dirty)| Step::Dirty(block, dirty)),
        4 => prop_oneof![8 => 0..SECOND, 2 => 0..8 * SECOND, 1 => 0..70 * SECOND].prop_map(Step::Tick),
    ];
    prop::collection::vec(step, 200..1500)
}

fn compare(kernel: SmqKernel, cache_blocks: u32, steps: &[Step]) {
    let geometry = Geometry { origin_blocks: 6000, cache_blocks, block_sectors: 128 };
    let (mut smq, mut model) = (Smq::new(geometry, kernel), Model::new(geometry, kernel));
    let (mut now, mut running) = (0, vec![]);
    for step in steps {
        match *step {
            Step::Read(block) | Step::Write(block, _) => {
                let bio = match *step {
                    Step::Write(_, fast) => access(block, true, fast),
                    _ => access(block, false, false),
                };
                let cached = match smq.lookup(bio) {
                    Lookup::Hit(block) => Some(u64::from(block)),
                    Lookup::Miss { .. } => None,
                };
                assert_eq!(cached, model.lookup(bio, false).0);
            }
            Step::Overwrite(block) => {
                let work = smq.lookup_with_work(access(block, true, true)).1;
                assert_eq!(work, model.lookup(access(block, true, true), true).1);
                running.extend(work);
            }
            Step::Work(idle) => {
                let work = smq.get_background_work(idle);
                assert_eq!(work, model.background(idle));
                running.extend(work);
            }
            Step::Complete(which, success) => {
                if which < running.len() {
                    let work = running.remove(which);
                    smq.complete_background_work(work, success);
                    model.complete(work, success);
                    if work.operation == Operation::Writeback && success {
                        smq.clear_dirty(work.cache_block);
                        model.set_dirty(u64::from(work.cache_block), false);
                    }
                }
            }
            Step::Dirty(block, dirty) => {
                if model.origin.get(&u64::from(block)).is_some_and(|origin| model.map.contains_key(origin))
                    && !model.free.contains(&u64::from(block))
                {
                    if dirty {
                        smq.set_dirty(block)
                    } else {
                        smq.clear_dirty(block)
                    };
                    model.set_dirty(u64::from(block), dirty);
                }
            }
            Step::Tick(pause) => {
                now += pause;
                smq.tick(now);
                model.tick(now);
            }
        }
        assert_eq!(smq.residency() as usize, model.blocks - model.free.len());
        assert_eq!(smq.dirty_blocks() as usize, model.dirty.len());
        assert_eq!(usize::from(smq.read_level), model.promote_level);
    }
    for block in 0..6000 {
        assert_eq!(smq.cached_at(block).map(u64::from), model.map.get(&block).copied());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn decides_as_the_rules_say(
        steps in steps(), cache_blocks in prop_oneof![Just(20u32), Just(70)],
        kernel in prop::sample::select(&[
            SmqKernel::V4_12Rc1, SmqKernel::LowerHalf, SmqKernel::WriteBackVictims, SmqKernel::TopLevel,
            SmqKernel::NoPreemptiveDemotion, SmqKernel::TracksAllIo, SmqKernel::V4_15, SmqKernel::V4_15,
        ]),
    ) {
        compare(kernel, cache_blocks, &steps);
    }
}

fn geometry(cache_blocks: u32, origin_blocks: u64) -> Geometry {
    Geometry { origin_blocks, cache_blocks, block_sectors: 128 }
}

#[test]
fn nothing_is_promoted_before_the_first_tick() {
    let mut smq = Smq::new(geometry(1024, 1 << 20), SmqKernel::V4_15);
    for _ in 0..100 {
        smq.lookup(access(7, false, false));
    }
    assert_eq!(smq.residency(), 0);
    assert_eq!(smq.lookup_with_work(access(7, true, true)).1.unwrap().operation, Operation::Promote);
}

#[test]
fn a_full_cache_needs_two_misses_for_a_promotion() {
    let mut smq = Smq::new(geometry(64, 1 << 20), SmqKernel::V4_15);
    for block in 0..64 {
        smq.load_mapping(1000 + block, block as u32, false, Some(0)).unwrap();
    }
    // A queue with fewer entries than the top levels hold is in the top wholly, so that everything is promoted.
    for second in 1..5 {
        smq.lookup(access(7, false, false));
        smq.tick(second * 2 * SECOND);
    }
    while let Some(work) = smq.get_background_work(false) {
        smq.complete_background_work(work, true);
    }
    assert!(smq.residency() < 64, "the first misses made a block free");
    smq.lookup(access(7, false, false));
    let work = smq.get_background_work(false).unwrap();
    assert_eq!((work.operation, work.origin_block), (Operation::Promote, 7));
    smq.complete_background_work(work, true);
    assert!(matches!(smq.lookup(access(7, false, false)), Lookup::Hit(_)));
    assert_eq!(smq.get_hint(work.cache_block), 63);
}

#[test]
fn kernel_4_11_replaces_only_blocks_behind_the_sentinels() {
    let mut smq = Smq::new(geometry(64, 1 << 20), SmqKernel::parse("4.11.6").unwrap());
    for block in 0..64 {
        smq.load_mapping(1000 + block, block as u32, false, Some(0)).unwrap();
    }
    let mut promoted = 0;
    for round in 1..40 {
        for _ in 0..20 {
            smq.lookup(access(5, false, false));
            smq.lookup(access(1000 + round % 64, false, false));
            smq.tick(round * SECOND);
            while let Some(work) = smq.get_background_work(false) {
                assert!(matches!(work.operation, Operation::Replace { victim } if victim >= 1000));
                smq.complete_background_work(work, true);
                promoted += 1;
            }
        }
    }
    assert_eq!(promoted, 1);
    assert_eq!(smq.residency(), 64);
}

#[test]
fn saved_levels_and_duplicates_are_checked_when_mappings_are_loaded() {
    use blklab_cache::LoadError;
    let mut smq = Smq::new(geometry(64, 1 << 20), SmqKernel::V4_15);
    smq.load_mapping(1, 3, true, Some(100)).unwrap();
    assert_eq!((smq.get_hint(3), smq.dirty_blocks(), smq.residency()), (63, 1, 1));
    assert_eq!(smq.load_mapping(2, 3, false, None), Err(LoadError::CacheBlock));
    assert_eq!(smq.load_mapping(1, 4, false, None), Err(LoadError::OriginBlock));
    assert_eq!(smq.load_mapping(9, 64, false, None), Err(LoadError::CacheBlock));
    assert!(smq.invalidate_mapping(3));
    assert!(!smq.invalidate_mapping(3));
    assert_eq!((smq.dirty_blocks(), smq.residency(), smq.cached_at(1)), (0, 0, None));
}

#[test]
fn kernels_are_found_by_version_commit_and_name() {
    for (text, kernel) in [
        ("4.9.30", SmqKernel::V4_2),
        ("4.12.0-rc1+", SmqKernel::V4_12Rc1),
        ("4.12.0-rc7+", SmqKernel::TracksAllIo),
        ("78c45607", SmqKernel::WriteBackVictims),
        ("4.14", SmqKernel::TracksAllIo),
        ("6.1.0-13-amd64", SmqKernel::V4_15),
    ] {
        assert_eq!(SmqKernel::parse(text), Some(kernel), "{text}");
    }
    assert_eq!(SmqKernel::parse("4.1"), None);
    assert_eq!(SmqKernel::parse("now"), None);
}
