//! Waiting requests in the order of their sectors: a sorted list made for a processor's branch prediction.
//!
//! A few dozen requests wait at a time, and every I/O is looked for, put in and taken out. Searching takes the same
//! steps for every length up to the next power of two, and what is moved is nearly always of one size; otherwise
//! it is mispredicted branches that one waits for.

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Where it begins.
    pub sector: u64,
    /// Its number.
    pub number: u32,
    /// Its place in the order of arrival.
    pub ticket: u32,
}

/// Behind the last request.
const END: Waiting = Waiting { sector: u64::MAX, number: 0, ticket: 0 };
/// How many are moved at once.
const BLOCK: usize = 32;

/// Requests by sector.
#[derive(Debug)]
pub struct Sorted {
    /// The requests, then `END` up to the room searched, a power of two, and a block behind it.
    slots: Vec<Waiting>,
    len: usize,
    room: usize,
}

impl Default for Sorted {
    fn default() -> Self {
        Self { slots: vec![END; 64 + BLOCK + 1], len: 0, room: 64 }
    }
}

impl Sorted {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many begin before a sector.
    #[inline]
    pub fn before(&self, sector: u64) -> usize {
        self.slots[..self.room].partition_point(|waiting| waiting.sector < sector)
    }

    /// The request at a place.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&Waiting> {
        if place < self.len { self.slots.get(place) } else { None }
    }

    /// The requests in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Waiting> {
        self.slots[..self.len].iter()
    }

    /// Puts a request where it belongs, which is at `place` if that is right.
    #[inline]
    pub fn insert(&mut self, place: usize, waiting: Waiting) {
        let not_behind = |place: usize| self.slots[place].sector <= waiting.sector;
        let fits = place <= self.len && !not_behind(place) && (place == 0 || not_behind(place - 1));
        let place = if fits { place } else { self.before(waiting.sector + 1) };
        if self.len - place <= BLOCK {
            self.slots.copy_within(place..place + BLOCK, place + 1);
        } else {
            self.slots.copy_within(place..self.len, place + 1);
        }
        self.slots[place] = waiting;
        self.len += 1;
        // The last slot searched stays free, so that there is always an end.
        if self.len == self.room {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.room *= 2;
        self.slots.resize(self.room + BLOCK + 1, END);
    }

    /// Takes the request at a place out.
    #[inline]
    pub fn remove(&mut self, place: usize) -> Waiting {
        let gone = self.slots[place];
        self.len -= 1;
        if self.len - place < BLOCK {
            self.slots.copy_within(place + 1..place + 1 + BLOCK, place);
        } else {
            self.slots.copy_within(place + 1..self.len + 2, place);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_sorted_list(steps in prop::collection::vec((0u64..300, 0usize..200, 0usize..5), 1..600)) {
            let mut sorted = Sorted::default();
            let mut known: Vec<(u64, u32)> = Vec::new();
            for (number, (sector, at, what)) in (0u32..).zip(steps) {
                if what > 1 || known.is_empty() {
                    let place = known.partition_point(|&(other, _)| other <= sector);
                    known.insert(place, (sector, number));
                    // With the right hint and with a wrong one.
                    let hint = if what > 2 { place } else { at };
                    sorted.insert(hint, Waiting { sector, number, ticket: number });
                } else {
                    let place = at % known.len();
                    let (_, number) = known.remove(place);
                    prop_assert_eq!(sorted.remove(place).number, number);
                }
                let found: Vec<_> = sorted.iter().map(|w| (w.sector, w.number)).collect();
                prop_assert_eq!(&found, &known);
                prop_assert_eq!(sorted.before(sector), known.partition_point(|&(other, _)| other < sector));
                prop_assert!(sorted.get(known.len()).is_none());
                prop_assert!(sorted.slots[sorted.len..].iter().all(|w| w.sector == u64::MAX));
            }
        }
    }
}
