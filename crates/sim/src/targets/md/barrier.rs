//! The barrier between a mirror's sync and all other bios: `raise_barrier` and `wait_barrier` of drivers/md/raid1.c
//! and raid10.c, Linux 6.1. RAID-1 has a barrier for every 64 MiB, and reads pass it; RAID-10 has one barrier, which
//! holds reads too.

use crate::engine::WaitList;

/// Sectors under one barrier of RAID-1 (`BARRIER_UNIT_SECTOR_BITS`).
const UNIT_BITS: u32 = 17;
/// `BARRIER_BUCKETS_NR`: units share the buckets.
const BUCKETS: usize = 1024;
/// `RESYNC_DEPTH`: pieces under one barrier.
const DEPTH: u32 = 32;

/// An array's barriers.
#[derive(Default)]
pub struct Barrier {
    single: bool,
    raised: Vec<u32>, // By bucket: pieces of the sync in flight, and other bios in flight
    pending: Vec<u32>,
    waiting: Vec<(usize, u32)>, // Waiting tasks by bucket
    pub entering: Vec<u32>,     // Tasks that have been released and have not entered yet
    pub woken: WaitList,        // Released tasks that the array must still wake
}

impl Barrier {
    /// RAID-10's single barrier, or RAID-1's barriers.
    pub fn new(single: bool) -> Self {
        let count = if single { 1 } else { BUCKETS };
        Self { single, raised: vec![0; count], pending: vec![0; count], ..Self::default() }
    }

    fn bucket(&self, sector: u64) -> usize {
        (sector >> UNIT_BITS) as usize % self.raised.len()
    }

    /// A task wants to submit a bio. False if it must wait.
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

    /// Counts a completed bio.
    pub fn leave(&mut self, sector: u64) {
        let bucket = self.bucket(sector);
        self.pending[bucket] -= 1;
    }

    /// Whether other bios are in flight.
    pub fn is_pending(&self, sector: u64) -> bool {
        self.pending[self.bucket(sector)] > 0
    }

    /// Whether tasks wait here, or have been released and must enter (`nr_waiting`).
    pub fn has_waiters(&self, sector: u64) -> bool {
        let bucket = self.bucket(sector);
        !self.entering.is_empty() || self.waiting.iter().any(|waiting| waiting.0 == bucket)
    }

    /// Raises the barrier for the sync. False if tasks must enter first, or enough pieces are in flight.
    pub fn raise(&mut self, sector: u64) -> bool {
        let bucket = self.bucket(sector);
        if self.has_waiters(sector) || self.raised[bucket] >= DEPTH {
            return false;
        }
        self.raised[bucket] += 1;
        true
    }

    /// Lowers the barrier after a piece of the sync; the last piece releases the waiting tasks.
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
mod tests;
