//! Requests a second, for `bench/cache`: prints one line for each cache, and asserts nothing about time.

use blklab_cache::curve::StackDistances;
use blklab_cache::curve::{next_accesses, opt_hits};
use blklab_cache::{Bcache, BcacheSettings, CacheMode, DmCache, Geometry, Op, Replay, Request, Smq, SmqKernel};

/// Time (s), object and size of each request of a trace in libCacheSim's format oracleGeneral.
fn read_trace(path: &str) -> Vec<(u32, u64, u32)> {
    let bytes = std::fs::read(path).expect("BLKLAB_ORACLE names a readable trace");
    let number = |b: &[u8], at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap());
    let object = |b: &[u8]| u64::from_le_bytes(b[4..12].try_into().unwrap());
    bytes.chunks_exact(24).map(|b| (number(b, 0), object(b), number(b, 12))).collect()
}

/// Processor time of this thread, in seconds: other programs do not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn measure(name: &str, requests: usize, run: impl FnOnce() -> (f64, usize)) {
    let start = cpu_seconds();
    let (misses, memory) = run();
    let seconds = cpu_seconds() - start;
    println!("{name}\t{:.2}\t{misses:.5}\t{:.1}", requests as f64 / seconds / 1e6, memory as f64 / 1048576.0);
}

#[test]
#[ignore = "BLKLAB_ORACLE must name a trace, and BLKLAB_BLOCKS a size: bench/cache does"]
fn speed_of_each_cache() {
    let trace = read_trace(&std::env::var("BLKLAB_ORACLE").unwrap());
    let blocks: u32 = std::env::var("BLKLAB_BLOCKS").unwrap().parse().unwrap();
    let (count, origin) = (trace.len(), trace.iter().map(|r| r.1).max().unwrap() + 1);
    for (name, rate) in [("lru-curve", 1.0), ("shards-1%", 0.01)] {
        measure(name, count, || {
            let mut lru = StackDistances::new(rate, 1);
            for together in trace.chunks(8192) {
                lru.access(&together.iter().map(|&(_, block, _)| (block, false)).collect::<Vec<_>>());
            }
            (1.0 - lru.samples[0].hit_ratio(&[false], Some(blocks.into())), lru.memory_bytes())
        });
    }
    let times = |index: usize, time: u32| u64::from(time) * 1_000_000_000 + index as u64 % 1000 * 1_000_000;
    let replay = |cache: &mut dyn Replay| {
        for (index, &(time, block, _)) in trace.iter().enumerate() {
            let time_ns = times(index, time);
            cache.request(&Request { time_ns, op: Op::Read, sector: block * 128, sectors: 8, task: 1 });
        }
        let counts = cache.counts();
        (1.0 - counts.read_hits as f64 / counts.reads as f64, cache.memory_bytes())
    };
    let geometry = Geometry { origin_blocks: origin, cache_blocks: blocks, block_sectors: 128 };
    for (name, kernel) in [("smq", SmqKernel::V4_15), ("smq-4.11", SmqKernel::V4_2)] {
        let smq = Box::new(Smq::new(geometry, kernel));
        let mut cache = DmCache::new(smq, geometry, CacheMode::Writethrough);
        measure(name, count, || replay(&mut cache));
    }
    measure("bcache", count, || replay(&mut Bcache::new(BcacheSettings { buckets: blocks / 8, ..Default::default() })));
    measure("opt", count, || {
        let objects: Vec<u64> = trace.iter().map(|r| r.1).collect();
        let next = next_accesses(&objects);
        let hits = opt_hits(None, &next, blocks.into(), true);
        (hits.iter().filter(|hit| !**hit).count() as f64 / count as f64, 0)
    });
}
