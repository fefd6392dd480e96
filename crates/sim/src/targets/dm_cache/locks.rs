//! Locks of origin blocks (drivers/md/dm-bio-prison-v2.c): each bio holds its block shared until it is done, each
//! migration holds it alone.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use blklab_stats::Hashing;

/// Which bios a migration keeps out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockLevel {
    Writes,
    All,
}

#[derive(Debug, Default)]
pub struct Lock {
    shared: u32, // Bios that hold the block
    holder: Option<(u32, LockLevel)>,
    quiescing: bool, // Whether the holder waits until no bio holds the block
    waiting: Vec<u32>,
}

/// The locks of all blocks that are in use.
#[derive(Debug, Default)]
pub struct BlockLocks(pub HashMap<u64, Lock, Hashing>);

impl BlockLocks {
    /// Takes the block for a bio. False if the bio must wait; the lock then holds it.
    pub fn share(&mut self, block: u64, write: bool, bio: u32) -> bool {
        let lock = self.0.entry(block).or_default();
        if lock.holder.is_some_and(|(_, level)| write || level == LockLevel::All) {
            lock.waiting.push(bio);
            return false;
        }
        lock.shared += 1;
        true
    }

    /// Gives the block back. Returns the migration that waited for this.
    pub fn put(&mut self, block: u64) -> Option<u32> {
        let Entry::Occupied(mut place) = self.0.entry(block) else { return None };
        let lock = place.get_mut();
        lock.shared -= 1;
        if lock.shared > 0 {
            return None;
        }
        let Some((migration, _)) = lock.holder else {
            place.remove();
            return None;
        };
        std::mem::take(&mut lock.quiescing).then_some(migration)
    }

    /// Locks the block for a migration, or raises its lock. `None` if another migration holds it, false if bios hold it
    /// still.
    pub fn lock(&mut self, block: u64, level: LockLevel, migration: u32) -> Option<bool> {
        let lock = self.0.entry(block).or_default();
        if lock.holder.is_some_and(|(holder, _)| holder != migration) {
            return None;
        }
        lock.holder = Some((migration, level));
        lock.quiescing = lock.shared > 0;
        Some(!lock.quiescing)
    }

    /// Unlocks the block. Returns the bios that waited.
    pub fn unlock(&mut self, block: u64) -> Vec<u32> {
        let Some(lock) = self.0.get_mut(&block) else { return Vec::new() };
        lock.holder = None;
        let waiting = std::mem::take(&mut lock.waiting);
        if lock.shared == 0 {
            self.0.remove(&block);
        }
        waiting
    }
}
