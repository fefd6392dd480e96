//! The buckets of bcache: how they are filled and which of them are invalidated (`alloc.c`).

use std::collections::VecDeque;

/// The priority of a bucket that was just read or filled (`INITIAL_PRIO`).
const INITIAL_PRIO: u64 = 32768;
/// Buckets that are filled at the same time (`MAX_OPEN_BUCKETS`); fewer in a scaled cache.
const OPEN: usize = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    generation: u32,    // incremented when it is invalidated: what was in it is no longer cached
    used: u64,          // its priority plus the number of times that all priorities fell until it was set
    live: u32,          // live sectors, counted always
    dirty: u32,         // dirty sectors, counted always
    counted: u32,       // live sectors as the last garbage collection counted them; a new bucket counts as full
    marked_dirty: bool, // it may hold dirty data: marked by writes, cleared by garbage collection
    is_open: bool,
    is_free: bool,
}

/// A bucket that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    bucket: u32,
    filled: u32,
    task: u32,
}

/// A place in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub bucket: u32,
    pub generation: u32, // its generation; if the bucket has another one, the data is gone
}

/// All buckets of a cache device.
#[derive(Clone, Debug)]
pub struct Buckets {
    buckets: Vec<Bucket>,
    sectors: u32,
    free: VecDeque<u32>,
    open: VecDeque<Open>,
    fallen: u64,               // how often all priorities fell by one
    until_fall: f64,           // sectors until they fall again
    pub until_collection: i64, // sectors until garbage is collected: a sixteenth of the cache after a collection
    available: u32,            // buckets without dirty data at the last collection, less those allocated since
    pub invalidated: u64,      // buckets that were invalidated
}

impl Buckets {
    /// A cache device of `count` buckets of `sectors`.
    pub fn new(count: u32, sectors: u32) -> Self {
        let mut buckets = Self {
            buckets: vec![Bucket { is_free: true, ..Bucket::default() }; count as usize],
            sectors,
            free: (0..count).collect(),
            open: VecDeque::with_capacity(OPEN),
            fallen: 0,
            until_fall: 0.0,
            until_collection: 0,
            available: count,
            invalidated: 0,
        };
        buckets.until_collection = buckets.part(16);
        buckets.until_fall = buckets.part(1024) as f64;
        buckets
    }

    fn part(&self, of: u64) -> i64 {
        (self.capacity() / of).max(1) as i64
    }

    /// Sectors of the cache.
    pub fn capacity(&self) -> u64 {
        self.buckets.len() as u64 * u64::from(self.sectors)
    }

    /// Whether data at this place is still there.
    pub fn is_live(&self, place: Place) -> bool {
        self.buckets[place.bucket as usize].generation == place.generation
    }

    /// Percent of the buckets in use, in the sense of bcache: dirty, or allocated since the last collection.
    pub fn percent_in_use(&self) -> u32 {
        100 - (u64::from(self.available) * 100).div_ceil(self.buckets.len() as u64) as u32
    }

    /// The data was read: its bucket is as good as new.
    pub fn touch(&mut self, place: Place) {
        self.buckets[place.bucket as usize].used = INITIAL_PRIO + self.fallen;
    }

    /// Sectors that did not bypass: priorities fall by one for each 1/1024 of the cache.
    pub fn rescale(&mut self, sectors: f64) {
        self.until_fall -= sectors;
        while self.until_fall < 0.0 {
            self.until_fall += self.part(1024) as f64;
            self.fallen += 1;
        }
    }

    /// Appends sectors to the bucket that this task fills; `None` if no bucket can be invalidated.
    pub fn append(&mut self, task: u32, sectors: u32, dirty: bool) -> Option<Place> {
        let mine = self.open.iter().position(|open| open.task == task);
        let mut open = match mine {
            Some(index) => self.open.remove(index)?,
            None if self.open.len() >= OPEN.min(self.buckets.len() / 8).max(1) => self.open.pop_front()?,
            None => Open { bucket: self.allocate()?, filled: 0, task },
        };
        if open.filled + sectors > self.sectors {
            self.buckets[open.bucket as usize].is_open = false;
            open = Open { bucket: self.allocate()?, filled: 0, task };
        }
        open.filled += sectors;
        self.open.push_back(Open { task, ..open });
        let bucket = &mut self.buckets[open.bucket as usize];
        bucket.live += sectors;
        bucket.dirty += if dirty { sectors } else { 0 };
        bucket.marked_dirty |= dirty;
        self.until_collection -= i64::from(sectors);
        Some(Place { bucket: open.bucket, generation: bucket.generation })
    }

    /// Sectors at a place are overwritten or invalidated.
    pub fn remove(&mut self, place: Place, sectors: u32, dirty: bool) {
        let bucket = &mut self.buckets[place.bucket as usize];
        bucket.live = bucket.live.saturating_sub(sectors);
        bucket.dirty = bucket.dirty.saturating_sub(if dirty { sectors } else { 0 });
    }

    /// Sectors at a place were written back.
    pub fn clean(&mut self, place: Place, sectors: u32) {
        let bucket = &mut self.buckets[place.bucket as usize];
        bucket.dirty = bucket.dirty.saturating_sub(sectors);
    }

    /// Garbage collection: counts live and dirty data again.
    pub fn collect(&mut self) {
        self.until_collection = self.part(16);
        self.available = 0;
        for bucket in &mut self.buckets {
            (bucket.counted, bucket.marked_dirty) = (bucket.live, bucket.dirty > 0);
            self.available += u32::from(!bucket.marked_dirty);
        }
    }

    fn allocate(&mut self) -> Option<u32> {
        if self.free.is_empty() {
            self.invalidate();
        }
        if self.free.is_empty() {
            self.collect();
            self.invalidate();
        }
        let number = self.free.pop_front()?;
        self.available = self.available.saturating_sub(1);
        let used = INITIAL_PRIO + self.fallen;
        let bucket = &mut self.buckets[number as usize];
        *bucket = Bucket { generation: bucket.generation, used, counted: self.sectors, ..Bucket::default() };
        bucket.is_open = true;
        Some(number)
    }

    /// Invalidates a batch of clean buckets: 4 × (their number, rounded up to a power of two, / 1024).
    fn invalidate(&mut self) {
        let batch = (4 * (self.buckets.len().next_power_of_two() / 1024)).max(1);
        let priority = |bucket: &Bucket| bucket.used.saturating_sub(self.fallen);
        let least = self.buckets.iter().filter(|b| !b.is_free).map(priority).min().unwrap_or(0);
        let floor = (INITIAL_PRIO - least.min(INITIAL_PRIO)) / 8;
        let can = |(_, bucket): &(usize, &Bucket)| !(bucket.is_free || bucket.is_open || bucket.marked_dirty);
        let weighted = |(number, b): (usize, &Bucket)| ((priority(b) - least + floor) * u64::from(b.counted), number);
        let mut chosen: Vec<_> = self.buckets.iter().enumerate().filter(can).map(weighted).collect();
        if batch < chosen.len() {
            chosen.select_nth_unstable(batch - 1);
            chosen.truncate(batch);
        }
        chosen.sort_unstable();
        for (_, number) in chosen {
            self.invalidated += 1;
            let bucket = &mut self.buckets[number];
            (bucket.generation, bucket.live, bucket.is_free) = (bucket.generation + 1, 0, true);
            self.free.push_back(number as u32);
        }
    }

    /// Memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }
}
