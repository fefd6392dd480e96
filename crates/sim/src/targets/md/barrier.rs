//! The barrier between a mirror's sync and everybody else: `raise_barrier` and `wait_barrier` of drivers/md/raid1.c and
//! raid10.c, Linux 6.1. RAID-1 has one for every 64 MiB, and reads pass it; RAID-10 has a single one, for reads too.

use crate::engine::WaitList;

/// Sectors under one barrier of RAID-1 (`BARRIER_UNIT_SECTOR_BITS`).
const UNIT_BITS: u32 = 17;
/// `BARRIER_BUCKETS_NR`: further units share them.
const BUCKETS: usize = 1024;
/// `RESYNC_DEPTH`: pieces under one barrier.
const DEPTH: u32 = 32;

/// An array's barriers.
#[derive(Debug)]
pub struct Barrier {
    single: bool,
    /// Pieces of the sync under way, and everybody else's bios.
    raised: Vec<u32>,
    pending: Vec<u32>,
    /// Tasks that wait, and those that have been let in and are on their way.
    waiting: Vec<(usize, u32)>,
    entering: Vec<u32>,
    /// Tasks that may enter but are not woken yet.
    pub woken: WaitList,
}

impl Barrier {
    /// RAID-10's, or RAID-1's.
    pub fn new(single: bool) -> Self {
        let count = if single { 1 } else { BUCKETS };
        Self {
            single,
            raised: vec![0; count],
            pending: vec![0; count],
            waiting: Vec::new(),
            entering: Vec::new(),
            woken: WaitList::default(),
        }
    }

    fn bucket(&self, sector: u64) -> usize {
        (sector >> UNIT_BITS) as usize % self.raised.len()
    }

    /// A task comes with a bio. False if it must wait.
    pub fn enter(&mut self, task: u32, sector: u64, write: bool) -> bool {
        let bucket = self.bucket(sector);
        if let Some(place) = self.entering.iter().position(|&other| other == task) {
            self.entering.swap_remove(place);
        } else if self.raised[bucket] > 0 && (write || self.single) {
            if !self.waiting.contains(&(bucket, task)) {
                self.waiting.push((bucket, task));
            }
            return false;
        }
        self.pending[bucket] += 1;
        true
    }

    /// A bio is done.
    pub fn leave(&mut self, sector: u64) {
        let bucket = self.bucket(sector);
        self.pending[bucket] -= 1;
    }

    /// Whether somebody's bios are under way.
    pub fn is_pending(&self, sector: u64) -> bool {
        self.pending[self.bucket(sector)] > 0
    }

    /// Whether nobody is on the way in.
    pub fn is_free(&self) -> bool {
        self.entering.is_empty()
    }

    /// Whether tasks wait here, or are on their way in (`nr_waiting`).
    pub fn is_awaited(&self, sector: u64) -> bool {
        let bucket = self.bucket(sector);
        !self.entering.is_empty() || self.waiting.iter().any(|waiting| waiting.0 == bucket)
    }

    /// The sync wants to go on here. False if others are to go first, or enough is under way.
    pub fn raise(&mut self, sector: u64) -> bool {
        let bucket = self.bucket(sector);
        if self.is_awaited(sector) || self.raised[bucket] >= DEPTH {
            return false;
        }
        self.raised[bucket] += 1;
        true
    }

    /// A piece of the sync is done.
    pub fn lower(&mut self, sector: u64) {
        let bucket = self.bucket(sector);
        self.raised[bucket] -= 1;
        if self.raised[bucket] == 0 {
            let (entering, woken) = (&mut self.entering, &mut self.woken);
            self.waiting.retain(|&(other, task)| {
                if other == bucket {
                    entering.push(task);
                    woken.add(task);
                }
                other != bucket
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sync_and_the_others_take_turns() {
        let mut barrier = Barrier::new(true);
        assert!(barrier.enter(1, 0, true) && barrier.raise(1 << 30) && barrier.is_pending(0));
        // The barrier is up: who comes now waits, and the sync begins nothing else.
        assert!(!barrier.enter(2, 8, false) && !barrier.raise(0));
        barrier.leave(0);
        assert!(!barrier.is_pending(0) && barrier.woken.is_empty());
        barrier.lower(0);
        assert_eq!(barrier.woken.len(), 1);
        assert!(!barrier.raise(0));
        assert!(barrier.enter(2, 8, false) && barrier.raise(0));
    }

    #[test]
    fn mirrors_have_many_and_read_on() {
        let mut barrier = Barrier::new(false);
        assert!((0..DEPTH).all(|_| barrier.raise(0)) && !barrier.raise(0) && barrier.raise(1 << UNIT_BITS));
        assert!(barrier.enter(1, 0, false) && barrier.enter(1, 3 << UNIT_BITS, true));
        assert!(!barrier.enter(1, 0, true));
    }
}
