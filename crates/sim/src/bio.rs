//! Block I/Os on their way down: from a task, through arrays, into a disk's queue.

/// No bio, no request, no task: the end of a list.
pub const NONE: u32 = u32::MAX;

/// What a bio asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Bytes from the disk.
    Read,
    /// Bytes to the disk.
    Write,
    /// Everything acknowledged must become durable.
    Flush,
}

/// One block I/O at one level of the stack.
#[derive(Clone, Copy, Debug)]
pub struct Bio {
    /// The node it is for.
    pub node: u16,
    /// The member's slot in its parent's array.
    pub slot: u8,
    /// What it asks for.
    pub op: Op,
    /// Whether writeback throttling lets it pass (`REQ_SYNC | REQ_IDLE`, as direct writes have).
    pub direct: bool,
    /// What an array has to do when it is done: 0 is nothing, else one of `md::phase`.
    pub phase: u8,
    /// In sectors of its node.
    pub sector: u64,
    /// 0 for a flush.
    pub sectors: u32,
    /// The bio that this is a part of, or `NONE`: then `io` says whose it is.
    pub parent: u32,
    /// The task's own I/O, for a bio at the top.
    pub io: u32,
    /// Parts not yet done, for a bio that an array has split.
    pub parts: u32,
    /// The next bio of the same request.
    pub next: u32,
}

impl Bio {
    /// The sector after the last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

/// All bios in flight.
#[derive(Debug)]
pub struct Bios {
    slots: Vec<Bio>,
    /// The first free slot; each names the `next`.
    free: u32,
}

impl Default for Bios {
    fn default() -> Self {
        Self { slots: Vec::new(), free: NONE }
    }
}

impl Bios {
    /// Stores a bio and returns its number.
    #[inline]
    pub fn add(&mut self, bio: Bio) -> u32 {
        let number = self.free;
        if let Some(slot) = self.slots.get_mut(number as usize) {
            self.free = slot.next;
            *slot = bio;
            return number;
        }
        self.slots.push(bio);
        self.slots.len() as u32 - 1
    }

    /// How many are in flight.
    #[cfg(test)]
    pub fn in_use(&self) -> usize {
        let free =
            std::iter::successors(self.slots.get(self.free as usize), |s| self.slots.get(s.next as usize));
        self.slots.len() - free.count()
    }

    /// How many there were at a time at most.
    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.slots.len()
    }

    /// Forgets a bio.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        self.slots[number as usize].next = self.free;
        self.free = number;
    }
}

impl std::ops::Index<u32> for Bios {
    type Output = Bio;
    #[inline]
    fn index(&self, number: u32) -> &Bio {
        &self.slots[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Bios {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Bio {
        &mut self.slots[number as usize]
    }
}
