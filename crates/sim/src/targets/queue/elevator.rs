//! I/O schedulers: which waiting request the disk gets next, and which waiting request a bio is merged into.

use super::Scheduler;
use super::{Request, Requests};
use crate::bio::{NONE, Op};
use crate::events::Time;
use std::collections::VecDeque;

/// block/mq-deadline.c and block/deadline-iosched.c: how long a read can wait.
const READ_EXPIRE: Time = 500_000_000;
/// The same for a write.
const WRITE_EXPIRE: Time = 5_000_000_000;
/// Requests of one direction in a row, in the order of sectors.
const FIFO_BATCH: u32 = 16;
/// How often reads are served before waiting writes.
const WRITES_STARVED: u32 = 2;
/// block/cfq-iosched.c: requests of one process in a row.
const CFQ_QUANTUM: u32 = 4;

/// The requests of a disk that wait.
#[derive(Default)]
pub struct Elevator {
    kind: Scheduler,
    sorted: [SortedRequests; 2], // By sector, reads and writes separately, for merging and for sorted dispatch
    arrival: [ArrivalQueue; 2],  // deadline: in order of arrival
    fifo: VecDeque<u32>,         // Requests for first-come dispatch, and per process for CFQ
    /// deadline: the direction, the position and the length of the current batch, and how often writes waited.
    direction: usize,
    position: u64,
    cursor: usize, // How many requests of that direction lie before the position
    hint: usize,   // The index where the last bio was searched
    batch: u32,
    starved: u32,
    turns: VecDeque<(u32, VecDeque<u32>)>, // CFQ: the processes that have requests, in turn
    served: u32,
    pub waiting: u32, // Requests that wait
}

impl Elevator {
    /// An empty elevator.
    pub fn new(kind: Scheduler) -> Self {
        Self { kind, ..Self::default() }
    }

    /// The waiting request that a bio from `sector` to `end` can be merged into, at its back (`true`) or front.
    pub fn find_merge(&mut self, op: Op, sector: u64, end: u64, requests: &Requests) -> Option<(u32, bool)> {
        if self.waiting == 0 {
            return None;
        }
        if self.kind == Scheduler::None {
            // Without an elevator only the newest eight are checked (`blk_mq_attempt_merge`).
            return self.fifo.iter().rev().take(8).find_map(|&n| merge_side(&requests[n], n, op, sector, end));
        }
        let sorted = &self.sorted[op as usize];
        let place = sorted.count_before(sector);
        self.hint = place;
        if let Some(before) = place.checked_sub(1) {
            let number = sorted.get(before)?.number;
            if let Some(joined) = merge_side(&requests[number], number, op, sector, end) {
                return Some(joined);
            }
        }
        let after = sorted.get(place).filter(|waiting| waiting.sector == end)?;
        merge_side(&requests[after.number], after.number, op, sector, end)
    }

    /// Moves a waiting request whose first sector changed in a front merge.
    pub fn reposition(&mut self, number: u32, from: u64, request: &Request) {
        if self.kind != Scheduler::None {
            let ticket = self.remove_sorted(request.op, from, number);
            self.add_sorted(number, ticket, request);
        }
    }

    /// Adds a request.
    pub fn insert(&mut self, now: Time, number: u32, request: &Request) {
        self.waiting += 1;
        match self.kind {
            Scheduler::None => self.fifo.push_back(number),
            Scheduler::Noop => {
                self.fifo.push_back(number);
                self.add_sorted(number, 0, request);
            }
            Scheduler::MqDeadline | Scheduler::Deadline => {
                let limit = if request.op == Op::Read { READ_EXPIRE } else { WRITE_EXPIRE };
                let ticket = self.arrival[request.op as usize].add(number, now + limit);
                self.add_sorted(number, ticket, request);
            }
            Scheduler::Cfq => {
                let task = request.task;
                match self.turns.iter_mut().find(|(owner, _)| *owner == task) {
                    Some((_, queue)) => queue.push_back(number),
                    None => self.turns.push_back((task, VecDeque::from([number]))),
                }
                self.add_sorted(number, 0, request);
            }
        }
    }

    /// Takes the request that the disk gets next.
    pub fn next_request(&mut self, now: Time, requests: &Requests) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let number = match self.kind {
            Scheduler::None => return self.fifo.pop_front().inspect(|_| self.waiting -= 1),
            Scheduler::Noop => self.fifo.pop_front()?,
            Scheduler::MqDeadline | Scheduler::Deadline => {
                self.waiting -= 1;
                return Some(self.next_deadline_request(now));
            }
            Scheduler::Cfq => self.next_cfq_request()?,
        };
        let request = &requests[number];
        self.remove_sorted(request.op, request.sector, number);
        self.waiting -= 1;
        Some(number)
    }

    /// `dd_dispatch_request`: batches in the order of sectors; reads first, unless writes starve. A new batch
    /// continues where the last one ended. It begins with the oldest request instead if that has expired, if the
    /// direction changes, or if no request lies further on.
    fn next_deadline_request(&mut self, now: Time) -> u32 {
        const READ: usize = Op::Read as usize;
        const WRITE: usize = Op::Write as usize;
        if self.batch < FIFO_BATCH && self.batch > 0 && self.cursor < self.sorted[self.direction].len {
            self.batch += 1;
            return self.take_at(self.cursor);
        }
        let writes = !self.sorted[WRITE].is_empty();
        let direction = if self.sorted[READ].is_empty() || (writes && self.starved >= WRITES_STARVED) {
            self.starved = 0;
            WRITE
        } else {
            self.starved += u32::from(writes);
            READ
        };
        let continues = direction == self.direction && self.cursor < self.sorted[direction].len;
        self.direction = direction;
        self.batch = 1;
        let (oldest, expired) = self.arrival[direction].oldest(now);
        if continues && !expired {
            return self.take_at(self.cursor);
        }
        let index = self.sorted[direction].iter().position(|waiting| waiting.number == oldest);
        self.take_at(index.unwrap_or(0))
    }

    /// Takes the request with this index in the current direction.
    fn take_at(&mut self, index: usize) -> u32 {
        let sorted = &mut self.sorted[self.direction];
        let taken = sorted.remove(index);
        self.position = taken.sector + 1;
        self.cursor = index;
        while sorted.get(self.cursor).is_some_and(|waiting| waiting.sector < self.position) {
            self.cursor += 1;
        }
        self.arrival[self.direction].remove(taken.ticket);
        taken.number
    }

    /// Processes in turn, a few requests each. Waiting for a process's next request (`slice_idle`) is not simulated:
    /// CFQ does not wait for processes that seek on a disk that queues (`cfq_update_idle_window`: `hw_tag`).
    fn next_cfq_request(&mut self) -> Option<u32> {
        let (_, queue) = self.turns.front_mut()?;
        let number = queue.pop_front()?;
        self.served += 1;
        if queue.is_empty() {
            self.turns.pop_front();
            self.served = 0;
        } else if self.served >= CFQ_QUANTUM {
            self.turns.rotate_left(1);
            self.served = 0;
        }
        Some(number)
    }

    fn add_sorted(&mut self, number: u32, ticket: u32, request: &Request) {
        let direction = request.op as usize;
        let sorted = &mut self.sorted[direction];
        // Nearly always the index where its bio was searched.
        sorted.insert(self.hint, SortedRequest { sector: request.sector, number, ticket });
        self.cursor += usize::from(direction == self.direction && request.sector < self.position);
    }

    /// Takes a request out, and returns its ticket.
    fn remove_sorted(&mut self, op: Op, sector: u64, number: u32) -> u32 {
        let direction = op as usize;
        let sorted = &mut self.sorted[direction];
        let first = sorted.count_before(sector);
        let Some(index) = sorted.iter().skip(first).position(|w| w.number == number) else { return 0 };
        self.cursor -= usize::from(direction == self.direction && first + index < self.cursor);
        sorted.remove(first + index).ticket
    }
}

/// Requests in order of arrival; any can be removed.
#[derive(Debug, Default)]
struct ArrivalQueue {
    /// Requests and their deadlines; `NONE` is a removed request. The first one has not been removed.
    queue: VecDeque<(u32, Time)>,
    first: u32, // The first request's ticket
}

impl ArrivalQueue {
    /// Adds a request; returns its ticket.
    fn add(&mut self, number: u32, deadline: Time) -> u32 {
        self.queue.push_back((number, deadline));
        self.first.wrapping_add(self.queue.len() as u32 - 1)
    }

    /// The oldest request, and whether it has expired.
    fn oldest(&self, now: Time) -> (u32, bool) {
        self.queue.front().map_or((NONE, false), |&(number, deadline)| (number, deadline <= now))
    }

    /// Removes a request.
    fn remove(&mut self, ticket: u32) {
        if let Some(place) = self.queue.get_mut(ticket.wrapping_sub(self.first) as usize) {
            place.0 = NONE;
        }
        while self.queue.front().is_some_and(|&(number, _)| number == NONE) {
            self.queue.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// How a bio can be merged into a request: at its back (`true`) or front.
pub fn merge_side(request: &Request, number: u32, op: Op, sector: u64, end: u64) -> Option<(u32, bool)> {
    let back = request.end() == sector;
    (request.op == op && (back || request.sector == end)).then_some((number, back))
}

// Waiting requests sorted by sector: a list that suits a processor's branch prediction.
//
// A few dozen requests wait at a time, and every I/O is searched, inserted and removed. A search takes the same
// steps for every length up to the next power of two, and a move nearly always has one size; otherwise mispredicted
// branches would dominate.

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
