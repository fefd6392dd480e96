//! The interface of dm-cache's policies, after `drivers/md/dm-cache-policy.h`.

pub type OriginBlock = u64; // a block of the origin (kernel: oblock)
pub type CacheBlock = u32; // a block of the cache device (kernel: cblock)

/// The sizes that a policy must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub origin_blocks: u64, // whole blocks of the origin; a last, partial block is never cached
    pub cache_blocks: CacheBlock,
    pub block_sectors: u32,
}

/// One bio, already split at block borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub block: OriginBlock,
    pub sector: u64, // its first sector, which only `mq` uses to detect sequential I/O
    pub sectors: u32,
    pub write: bool,
    pub fast_copy: bool, // whether a promotion needs no copy: the block is discarded, or is overwritten as a whole
}

/// What a look-up finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    Hit(CacheBlock),
    Miss { background_work: bool }, // whether the miss may have queued work: ask for it
}

/// What a piece of background work does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Promote,                         // copy the block to the cache
    Demote,                          // remove the block from the cache; it is clean
    Writeback,                       // copy the block to the origin; it stays
    Replace { victim: OriginBlock }, // remove the clean victim, and copy the block into its place (until 4.11)
}

/// A piece of background work, which the target performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub operation: Operation,
    pub origin_block: OriginBlock,
    pub cache_block: CacheBlock,
}

/// Why a mapping cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    CacheBlock,  // there is no such cache block, or it is in use
    OriginBlock, // the block of the origin is mapped already
}

/// A policy of dm-cache.
///
/// In a policy of 4.11 or earlier, a block whose promotion is queued is found by look-ups at once: the target held back
/// bios for it until the copy was done. In later ones it is found when the work is complete, and reads miss until then.
pub trait Policy {
    /// Looks a block up, and counts the access. A miss may queue work.
    fn lookup(&mut self, access: Access) -> Lookup;
    /// The same, but a promotion is returned instead of queued: the bio itself overwrites the block.
    fn lookup_with_work(&mut self, access: Access) -> (Lookup, Option<Work>);
    /// The next piece of work. `idle`: no I/O was in flight for a while, so that writeback disturbs no one.
    fn get_background_work(&mut self, idle: bool) -> Option<Work>;
    /// The work is done, or was given up.
    fn complete_background_work(&mut self, work: Work, success: bool);
    /// The cached block was written to.
    fn set_dirty(&mut self, block: CacheBlock);
    /// The cached block is equal to the origin's.
    fn clear_dirty(&mut self, block: CacheBlock);
    /// Restores a mapping before the first look-up; `hint` is what `get_hint` returned at shutdown.
    fn load_mapping(
        &mut self, from: OriginBlock, to: CacheBlock, dirty: bool, hint: Option<u32>,
    ) -> Result<(), LoadError>;
    /// Removes a mapping; false if the cache block is free or work on it is pending.
    fn invalidate_mapping(&mut self, block: CacheBlock) -> bool;
    /// What the metadata stores for a cached block.
    fn get_hint(&self, block: CacheBlock) -> u32;
    /// Cache blocks in use, those being promoted included.
    fn residency(&self) -> CacheBlock;
    /// Dirty blocks; those being written back count until they are clean.
    fn dirty_blocks(&self) -> CacheBlock;
    /// Time passes: called when the bio that carries the tick ends, and once a second.
    fn tick(&mut self, now_ns: u64);
    /// Whether migrations may be queued; true at the beginning.
    fn allow_migrations(&mut self, allow: bool);
    /// Where a block is cached, without counting an access.
    fn cached_at(&self, block: OriginBlock) -> Option<CacheBlock>;
    /// Memory, in bytes.
    fn memory_bytes(&self) -> usize;
}
