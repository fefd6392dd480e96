//! I/O schedulers: which of the waiting requests goes to the disk next, and which bios join one that waits.

use std::collections::VecDeque;

use crate::bio::Op;
use crate::cell::Scheduler;
use crate::events::Time;
use crate::queue::request::{Request, Requests};

/// block/mq-deadline.c and block/deadline-iosched.c: how long a read may wait.
const READ_EXPIRE: Time = 500_000_000;
/// The same for a write.
const WRITE_EXPIRE: Time = 5_000_000_000;
/// Requests of one direction in a row, in the order of sectors.
const FIFO_BATCH: u32 = 16;
/// How often reads go first while writes wait.
const WRITES_STARVED: u32 = 2;
/// block/cfq-iosched.c: requests of one process in a row.
const CFQ_QUANTUM: u32 = 4;

/// The requests that wait for one disk.
#[derive(Debug)]
pub struct Elevator {
    kind: Scheduler,
    /// By sector, reads and writes apart, for merging and for sorted dispatch: (sector, request).
    sorted: [Vec<(u64, u32)>; 2],
    /// In order of arrival; may name requests that have gone since.
    arrival: [VecDeque<(u32, Time)>; 2],
    /// Requests for first-come dispatch, and per process for CFQ.
    fifo: VecDeque<u32>,
    /// deadline: the direction, the position and the length of the running batch, and how often writes waited.
    direction: usize,
    position: u64,
    batch: u32,
    starved: u32,
    /// CFQ: the processes that have requests, in turn.
    turns: VecDeque<(u32, VecDeque<u32>)>,
    served: u32,
    /// CFQ: asynchronous writes, which come last.
    waiting: u32,
}

impl Elevator {
    /// An empty elevator.
    pub fn new(kind: Scheduler) -> Self {
        Self {
            kind,
            sorted: Default::default(),
            arrival: Default::default(),
            fifo: VecDeque::new(),
            direction: 0,
            position: 0,
            batch: 0,
            starved: 0,
            turns: VecDeque::new(),
            served: 0,
            waiting: 0,
        }
    }

    /// How many wait.
    #[inline]
    pub fn len(&self) -> u32 {
        self.waiting
    }

    /// The waiting request that a bio at `sector` to `end` continues (`true`) or precedes.
    #[inline]
    pub fn neighbour(&self, op: Op, sector: u64, end: u64, requests: &Requests) -> Option<(u32, bool)> {
        if self.waiting == 0 {
            return None;
        }
        if self.kind == Scheduler::None {
            // Without an elevator only the newest eight are looked at (`blk_mq_attempt_merge`).
            return self.fifo.iter().rev().take(8).find_map(|&n| join(&requests[n], n, op, sector, end));
        }
        let sorted = &self.sorted[op as usize];
        let place = sorted.partition_point(|&(start, _)| start < sector);
        let before = place.checked_sub(1).map(|i| sorted[i].1);
        let after = sorted.get(place).map(|&(_, n)| n);
        before.into_iter().chain(after).find_map(|n| join(&requests[n], n, op, sector, end))
    }

    /// A waiting request now begins at another sector, because a bio was put before it.
    pub fn moved(&mut self, number: u32, from: u64, request: &Request) {
        if self.kind != Scheduler::None {
            self.unsort(request.op, from, number);
            self.sort(number, request);
        }
    }

    /// A request begins to wait.
    #[inline]
    pub fn insert(&mut self, now: Time, number: u32, request: &Request) {
        self.waiting += 1;
        match self.kind {
            Scheduler::None => self.fifo.push_back(number),
            Scheduler::Noop => {
                self.fifo.push_back(number);
                self.sort(number, request);
            }
            Scheduler::MqDeadline | Scheduler::Deadline => {
                let limit = if request.op == Op::Read { READ_EXPIRE } else { WRITE_EXPIRE };
                self.arrival[request.op as usize].push_back((number, now + limit));
                self.sort(number, request);
            }
            Scheduler::Cfq => {
                let task = request.task;
                match self.turns.iter_mut().find(|(owner, _)| *owner == task) {
                    Some((_, queue)) => queue.push_back(number),
                    None => self.turns.push_back((task, VecDeque::from([number]))),
                }
                self.sort(number, request);
            }
        }
    }

    /// Takes the request that goes to the disk next.
    #[inline]
    pub fn next(&mut self, now: Time, requests: &Requests) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let number = match self.kind {
            Scheduler::None => return self.fifo.pop_front().inspect(|_| self.waiting -= 1),
            Scheduler::Noop => self.fifo.pop_front()?,
            Scheduler::MqDeadline | Scheduler::Deadline => self.next_by_deadline(now),
            Scheduler::Cfq => self.next_in_turn()?,
        };
        let request = &requests[number];
        self.unsort(request.op, request.sector, number);
        self.waiting -= 1;
        Some(number)
    }

    /// `dd_dispatch_request`: batches in the order of sectors; reads first, unless writes starve; a new batch
    /// begins with the oldest request if it has expired.
    fn next_by_deadline(&mut self, now: Time) -> u32 {
        const READ: usize = Op::Read as usize;
        const WRITE: usize = Op::Write as usize;
        if self.batch < FIFO_BATCH && self.batch > 0 {
            if let Some(number) = self.after(self.direction) {
                self.batch += 1;
                return self.leave(number);
            }
        }
        let direction = if self.sorted[READ].is_empty() {
            WRITE
        } else if !self.sorted[WRITE].is_empty() && self.starved >= WRITES_STARVED {
            WRITE
        } else {
            self.starved += u32::from(!self.sorted[WRITE].is_empty());
            READ
        };
        if direction == WRITE {
            self.starved = 0;
        }
        self.direction = direction;
        self.batch = 1;
        let oldest = self.arrival[direction].front();
        let expired = oldest.filter(|&&(_, deadline)| deadline <= now).map(|&(number, _)| number);
        let number = match expired.and_then(|number| self.index(direction, number)) {
            Some(index) => self.sorted[direction][index],
            None => self.after(direction).unwrap_or(self.sorted[direction][0]),
        };
        self.leave(number)
    }

    fn after(&self, direction: usize) -> Option<(u64, u32)> {
        let sorted = &self.sorted[direction];
        sorted.get(sorted.partition_point(|&(sector, _)| sector < self.position)).copied()
    }

    fn index(&self, direction: usize, number: u32) -> Option<usize> {
        self.sorted[direction].iter().position(|&(_, n)| n == number)
    }

    fn leave(&mut self, (sector, number): (u64, u32)) -> u32 {
        self.position = sector + 1;
        let arrival = &mut self.arrival[self.direction];
        match arrival.front() {
            Some(&(oldest, _)) if oldest == number => {
                arrival.pop_front();
            }
            _ => {
                if let Some(index) = arrival.iter().position(|&(n, _)| n == number) {
                    arrival.remove(index);
                }
            }
        }
        number
    }

    /// Processes in turn, a few requests each. Waiting for a process's next request (`slice_idle`) is left out:
    /// CFQ does not wait for processes that seek on a disk that queues (`cfq_update_idle_window`: `hw_tag`).
    fn next_in_turn(&mut self) -> Option<u32> {
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

    fn sort(&mut self, number: u32, request: &Request) {
        let sorted = &mut self.sorted[request.op as usize];
        let place = sorted.partition_point(|&(start, _)| start <= request.sector);
        sorted.insert(place, (request.sector, number));
    }

    fn unsort(&mut self, op: Op, sector: u64, number: u32) {
        let sorted = &mut self.sorted[op as usize];
        let first = sorted.partition_point(|&(start, _)| start < sector);
        if let Some(index) = sorted[first..].iter().position(|&(_, n)| n == number) {
            sorted.remove(first + index);
        }
    }
}

#[inline]
fn join(request: &Request, number: u32, op: Op, sector: u64, end: u64) -> Option<(u32, bool)> {
    if request.op != op {
        None
    } else if request.end() == sector {
        Some((number, true))
    } else if request.sector == end {
        Some((number, false))
    } else {
        None
    }
}
