//! Belady's OPT, which knows the future, for objects of any size.

use blklab_stats::Hashing;
use std::collections::{BTreeSet, HashMap};

/// The next access to the same object, for each access; `u64::MAX`: none.
pub fn next_accesses(objects: &[u64]) -> Vec<u64> {
    let mut next = vec![u64::MAX; objects.len()];
    let mut seen: HashMap<u64, u64, Hashing> = HashMap::default();
    for (index, &object) in objects.iter().enumerate().rev() {
        if let Some(later) = seen.insert(object, index as u64) {
            next[index] = later;
        }
    }
    next
}

/// Belady's OPT for this capacity: which accesses hit. `sizes` are the objects' bytes at each access; `None`: all are 1.
///
/// Objects that are not used again are not kept. `bypass`: a miss need not be cached at all, as in block caches. With sizes, OPT is NP-hard, and this is the usual heuristic: the object that is used
/// last leaves first.
pub fn opt_hits(objects: &[u64], sizes: Option<&[u64]>, next: &[u64], capacity: u64, bypass: bool) -> Vec<bool> {
    let mut cached: HashMap<u64, (u64, u64), Hashing> = HashMap::default();
    let mut order: BTreeSet<(u64, u64)> = BTreeSet::new();
    let mut used = 0;
    let accesses = objects.iter().zip(next).enumerate();
    let hits = accesses.map(|(index, (&object, &again))| {
        let old = cached.remove(&object);
        let bytes = old.map_or_else(|| sizes.map_or(1, |sizes| sizes[index]), |(_, bytes)| bytes);
        if let Some((at, _)) = old {
            order.remove(&(at, object));
            used -= bytes;
        }
        let mut keep = again != u64::MAX && bytes <= capacity;
        while used + bytes > capacity
            && bytes <= capacity
            && let Some(&(latest, victim)) = order.last()
        {
            if bypass && (!keep || latest < again) {
                keep = false;
                break;
            }
            order.pop_last();
            used -= cached.remove(&victim).map_or(0, |(_, size)| size);
        }
        if keep {
            cached.insert(object, (again, bytes));
            order.insert((again, object));
            used += bytes;
        }
        old.is_some()
    });
    hits.collect()
}
