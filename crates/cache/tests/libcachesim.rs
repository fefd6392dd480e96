//! LRU and OPT against libCacheSim 0.3.5, on the trace that it publishes (data/cloudPhysicsIO.oracleGeneral.bin).

use blklab_cache::curve::{next_accesses, opt_hits};
use std::collections::{BTreeMap, HashMap};

/// Misses of LRU with objects of any size, which may change.
fn lru_misses(trace: &[(u64, u64)], capacity: u64) -> usize {
    let (mut cached, mut order) = (HashMap::new(), BTreeMap::new());
    let (mut used, mut misses) = (0, 0);
    for (now, &(object, bytes)) in trace.iter().enumerate() {
        if let Some((at, old)) = cached.remove(&object) {
            order.remove(&at);
            used -= old;
        } else {
            misses += 1;
        }
        while used + bytes > capacity
            && let Some((_, victim)) = order.pop_first()
        {
            used -= cached.remove::<u64>(&victim).unwrap().1;
        }
        if bytes <= capacity {
            cached.insert(object, (now, bytes));
            order.insert(now, object);
            used += bytes;
        }
    }
    misses
}

#[test]
#[ignore = "BLKLAB_CLOUDPHYSICS must name the trace: bench/cache does"]
fn misses_equal_those_of_libcachesim() {
    let bytes = std::fs::read(std::env::var("BLKLAB_CLOUDPHYSICS").unwrap()).unwrap();
    let number = |b: &[u8]| u64::from(u32::from_le_bytes(b.try_into().unwrap()));
    let object = |b: &[u8]| u64::from_le_bytes(b.try_into().unwrap());
    let trace: Vec<_> = bytes.chunks_exact(24).map(|b| (object(&b[4..12]), number(&b[12..16]))).collect();
    let (objects, sizes): (Vec<_>, Vec<_>) = trace.iter().copied().unzip();
    assert_eq!(trace.len(), 113_872);
    let next = next_accesses(&objects);
    let lru = [93374, 89783, 83572, 81722, 72494, 72104, 71972, 71704];
    let belady = [79256, 70724, 65481, 61594, 59645, 57599, 50873, 48974];
    for (at, (lru, belady)) in lru.into_iter().zip(belady).enumerate() {
        let capacity = (at as u64 + 1) << 27;
        let hits = opt_hits(Some(&sizes), &next, capacity, false);
        assert_eq!((lru_misses(&trace, capacity), hits.iter().filter(|hit| !**hit).count()), (lru, belady));
    }
}
