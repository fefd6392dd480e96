//! The instant replay of a trace: every cache counts what it would have found.

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read,                 // it reads
    Write { sync: bool }, // it writes; `sync`: a process waits for it (REQ_SYNC), as direct I/O and fsync do
    Discard,              // it discards
    Flush,                // it flushes, and has no sectors
}

/// One I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub time_ns: u64, // when it was queued, in ns; never less than the time of the request before
    pub op: Op,       // what it does
    pub sector: u64,  // its first sector
    pub sectors: u32, // its sectors
    pub task: u32,    // the task that queued it
}

/// What a cache counted. Reads and writes are counted as the cache's own statistics count them: dm-cache for each bio
/// after it was split, bcache for each bio, the bounds for each block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,     // reads, and how many of them the cache served
    pub read_hits: u64, // reads that the cache served
    pub writes: u64,
    pub overwrites: u64, // writes that promoted their block at once, which dm-cache counts neither as hit nor as miss
    pub write_hits: u64, // writes to cached blocks; bcache and dm-writecache: writes that the cache took
    pub promotions: u64, // blocks that were copied or written to the cache; bcache: sectors inserted
    pub demotions: u64,  // blocks that left the cache; bcache: buckets that were invalidated
    pub writebacks: u64, // blocks that were written back
    pub bypassed_sectors: u64, // sectors of requests that bypassed the cache
    pub dirty: u64,      // blocks that are dirty now
}

/// A cache that replays a trace.
pub trait Replay {
    /// Replays one request.
    fn request(&mut self, request: &Request);

    /// The same for an I/O whose stream has these sectors, which caches of several sizes count together.
    fn request_in_stream(&mut self, request: &Request, _sequential: u64) {
        self.request(request);
    }

    /// A request of a trace with completions is done.
    fn complete(&mut self, _time_ns: u64, _sector: u64) {}

    /// What it counted until now.
    fn counts(&self) -> Counts;

    /// Memory, in bytes.
    fn memory_bytes(&self) -> usize;
}
