//! Waiting requests sorted by sector: a list that suits a processor's branch prediction.
//!
//! A few dozen requests wait at a time, and every I/O is searched, inserted and removed. A search takes the same
//! steps for every length up to the next power of two, and a move nearly always has one size; otherwise mispredicted
//! branches would dominate.

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct SortedRequest {
    pub sector: u64, // Where it begins
    pub number: u32,
    pub ticket: u32, // Its ticket in the order of arrival
}

/// Behind the last request.
const END: SortedRequest = SortedRequest { sector: u64::MAX, number: 0, ticket: 0 };
/// Requests that are moved at once.
const BLOCK: usize = 32;

/// Requests by sector.
pub struct SortedRequests {
    slots: Vec<SortedRequest>, // The requests, then `END` up to the searched length, a power of two, and one more block
    pub len: usize,            // How many there are
    searched: usize,
}

impl Default for SortedRequests {
    fn default() -> Self {
        Self { slots: vec![END; 64 + BLOCK + 1], len: 0, searched: 64 }
    }
}

impl SortedRequests {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of requests that begin before a sector.
    pub fn count_before(&self, sector: u64) -> usize {
        self.slots[..self.searched].partition_point(|waiting| waiting.sector < sector)
    }

    /// The request at an index.
    pub fn get(&self, place: usize) -> Option<&SortedRequest> {
        if place < self.len { self.slots.get(place) } else { None }
    }

    /// The requests in order.
    pub fn iter(&self) -> std::slice::Iter<'_, SortedRequest> {
        self.slots[..self.len].iter()
    }

    /// Inserts a request; `place` is a hint for its index.
    pub fn insert(&mut self, place: usize, waiting: SortedRequest) {
        let not_behind = |place: usize| self.slots[place].sector <= waiting.sector;
        let fits = place <= self.len && !not_behind(place) && (place == 0 || not_behind(place - 1));
        let place = if fits { place } else { self.count_before(waiting.sector + 1) };
        if self.len - place <= BLOCK {
            self.slots.copy_within(place..place + BLOCK, place + 1);
        } else {
            self.slots.copy_within(place..self.len, place + 1);
        }
        self.slots[place] = waiting;
        self.len += 1;
        // The last searched slot stays free, so that there is always an `END`.
        if self.len == self.searched {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.searched *= 2;
        self.slots.resize(self.searched + BLOCK + 1, END);
    }

    /// Removes the request at an index.
    pub fn remove(&mut self, place: usize) -> SortedRequest {
        let taken = self.slots[place];
        self.len -= 1;
        if self.len - place < BLOCK {
            self.slots.copy_within(place + 1..place + 1 + BLOCK, place);
        } else {
            self.slots.copy_within(place + 1..self.len + 2, place);
        }
        taken
    }
}

#[cfg(test)]
mod tests;
