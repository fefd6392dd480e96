//! The block layer above one disk: merging, tags, the elevator, throttling, and what /proc/diskstats counts.

pub mod elevator;
pub mod request;
mod sorted;
pub mod wbt;

use std::collections::VecDeque;

use crate::bio::{Bio, Bios, Op};
use crate::cell::{self, Scheduler};
use crate::device::{Command, Disk};
use crate::events::{Events, Time};
use crate::kernel::Kernel;
use crate::outcome::DiskStats;
use elevator::Elevator;
use request::{Request, Requests};
use wbt::Throttle;

/// Whether a bio went into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is part of a request that waits already.
    Merged,
    /// It is a request of its own, which the caller inserts.
    Request(u32),
    /// No tag, or the throttle is full: the task sleeps in this queue.
    Full,
}

/// One disk with its queue.
#[derive(Debug)]
pub struct Queue {
    node: u16,
    /// Where the partition begins, in bytes of the disk.
    start: u64,
    /// The largest request, in sectors.
    pub max_sectors: u32,
    depth: u32,
    nr_requests: u32,
    multi_queue: bool,
    write_back: bool,
    elevator: Elevator,
    throttle: Throttle,
    disk: Disk,
    /// Free tags. Single-queue kernels have as many for reads as for writes (`struct request_list`); multi-queue
    /// kernels have one pool, the first.
    tags: [u32; 2],
    in_disk: u32,
    /// Flushes that wait for the disk to be empty, and whether one is running.
    flushes: VecDeque<u32>,
    flushing: bool,
    /// Tags freed since tasks were last woken.
    freed: u32,
    tag_waiters: VecDeque<u32>,
    throttle_waiters: VecDeque<u32>,
    /// What was counted.
    pub stats: DiskStats,
}

impl Queue {
    /// The queue of a device, which is node `node` of the stack.
    pub fn new(device: &cell::Device, node: u16, kernel: Kernel) -> Self {
        let queue = &device.queue;
        let target = if kernel.throttles_writeback() { queue.wbt_lat_ns } else { 0 };
        Self {
            node,
            start: device.start,
            max_sectors: (queue.max_bytes / 512).max(8),
            depth: queue.queue_depth.max(1),
            nr_requests: queue.nr_requests.max(1),
            // The elevators of single-queue kernels say which kind of queue it is.
            multi_queue: matches!(queue.scheduler, Scheduler::None | Scheduler::MqDeadline),
            write_back: queue.write_back,
            elevator: Elevator::new(queue.scheduler),
            throttle: Throttle::new(target, queue.queue_depth.max(1), queue.write_back),
            disk: Disk::new(&device.model, u32::from(node)),
            tags: [queue.nr_requests.max(1); 2],
            in_disk: 0,
            flushes: VecDeque::new(),
            flushing: false,
            freed: 0,
            tag_waiters: VecDeque::new(),
            throttle_waiters: VecDeque::new(),
            stats: DiskStats::new(&device.name),
        }
    }

    /// Takes a bio of a task: merges it, makes it a request, or puts the task to sleep.
    #[inline]
    pub fn admit(
        &mut self,
        now: Time,
        task: u32,
        number: u32,
        plug: &[u32],
        bios: &mut Bios,
        requests: &mut Requests,
    ) -> Admission {
        let bio = bios[number];
        if bio.op == Op::Flush {
            return Admission::Request(self.request(now, task, number, &bio, false, requests));
        }
        if self.merge(number, &bio, plug, bios, requests) {
            return Admission::Merged;
        }
        let pool = self.pool(bio.op);
        if self.tags[pool] == 0 {
            self.stats.tag_waits += 1;
            self.tag_waiters.push_back(task);
            return Admission::Full;
        }
        let throttled = bio.op == Op::Write && !bio.direct && self.throttle.is_on();
        // Whoever comes while others sleep lines up behind them (`rq_qos_wait`: `has_sleeper`).
        if throttled && (!self.throttle_waiters.is_empty() || !self.throttle.admit(now)) {
            self.stats.throttle_waits += 1;
            self.throttle_waiters.push_back(task);
            return Admission::Full;
        }
        self.tags[pool] -= 1;
        Admission::Request(self.request(now, task, number, &bio, throttled, requests))
    }

    fn request(
        &self,
        now: Time,
        task: u32,
        bio_number: u32,
        bio: &Bio,
        throttled: bool,
        all: &mut Requests,
    ) -> u32 {
        all.add(Request {
            node: self.node,
            op: bio.op,
            throttled,
            sector: bio.sector,
            sectors: bio.sectors,
            first: bio_number,
            last: bio_number,
            task,
            start: now,
            dispatched: now,
        })
    }

    #[inline]
    fn merge(
        &mut self,
        number: u32,
        bio: &Bio,
        plug: &[u32],
        bios: &mut Bios,
        requests: &mut Requests,
    ) -> bool {
        let (sector, end) = (bio.sector, bio.end());
        let plugged = plug.iter().rev().find_map(|&n| {
            let r = &requests[n];
            let back = r.end() == sector;
            (r.node == self.node && r.op == bio.op && (back || r.sector == end)).then_some((n, back, false))
        });
        let found = plugged.or_else(|| {
            self.elevator.neighbour(bio.op, sector, end, requests).map(|(n, back)| (n, back, true))
        });
        let Some((request_number, back, waiting)) = found else { return false };
        let request = &mut requests[request_number];
        if request.sectors + bio.sectors > self.max_sectors {
            return false;
        }
        request.sectors += bio.sectors;
        if back {
            bios[request.last].next = number;
            request.last = number;
        } else {
            let from = request.sector;
            bios[number].next = request.first;
            request.first = number;
            request.sector = bio.sector;
            if waiting {
                self.elevator.moved(request_number, from, request);
            }
        }
        self.stats.merges[bio.op as usize] += 1;
        true
    }

    /// Puts a new request into the elevator, or straight into the disk if nothing waits.
    #[inline]
    pub fn insert(&mut self, now: Time, number: u32, requests: &mut Requests, events: &mut Events) {
        let request = &requests[number];
        if request.op == Op::Flush {
            self.flushes.push_back(number);
            self.dispatch(now, requests, events);
        } else if self.elevator.len() == 0 && self.has_room() {
            self.send(now, number, requests, events);
        } else {
            self.elevator.insert(now, number, request);
            self.dispatch(now, requests, events);
        }
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.in_disk < self.depth && self.flushes.is_empty() && !self.flushing
    }

    /// Gives the disk what it has room for.
    #[inline(always)]
    pub fn dispatch(&mut self, now: Time, requests: &mut Requests, events: &mut Events) {
        if (self.elevator.len() > 0 && self.in_disk < self.depth) || !self.flushes.is_empty() {
            self.dispatch_waiting(now, requests, events);
        }
    }

    fn dispatch_waiting(&mut self, now: Time, requests: &mut Requests, events: &mut Events) {
        if !self.flushes.is_empty() {
            self.dispatch_flush(now, requests, events);
        }
        while self.elevator.len() > 0 && self.has_room() {
            let Some(number) = self.elevator.next(now, requests) else { break };
            self.send(now, number, requests, events);
        }
    }

    /// SATA's FLUSH CACHE is no queued command: the disk must be empty, and nothing else runs with it. Without a
    /// volatile cache the block layer answers itself (`blk_insert_flush`).
    fn dispatch_flush(&mut self, now: Time, requests: &mut Requests, events: &mut Events) {
        if !self.write_back {
            while let Some(number) = self.flushes.pop_front() {
                events.at(now, crate::events::Event::Done(number));
            }
        } else if self.in_disk == 0 && !self.flushing {
            self.flushing = true;
            let number = self.flushes[0];
            requests[number].dispatched = now;
            let command = Command { request: number, op: Op::Flush, byte: 0, bytes: 0 };
            self.disk.start(now, command, events);
        }
    }

    #[inline]
    fn send(&mut self, now: Time, number: u32, requests: &mut Requests, events: &mut Events) {
        let request = &mut requests[number];
        request.dispatched = now;
        self.in_disk += 1;
        let byte = self.start + request.sector * 512;
        self.disk.start(
            now,
            Command { request: number, op: request.op, byte, bytes: request.sectors * 512 },
            events,
        );
    }

    /// The disk's own event.
    pub fn mechanism_free(&mut self, now: Time, events: &mut Events) {
        self.disk.mechanism_free(now, events);
    }

    /// A request is done: counts it, and says which tasks wake.
    #[inline]
    pub fn complete(&mut self, now: Time, number: u32, requests: &Requests, woken: &mut Vec<u32>) {
        let request = &requests[number];
        if request.op == Op::Flush {
            self.stats.flushes += 1;
            if self.write_back {
                self.flushing = false;
                self.stats.flush_ns += now - request.dispatched;
                self.flushes.pop_front();
            }
            return;
        }
        self.in_disk -= 1;
        let pool = self.pool(request.op);
        self.tags[pool] += 1;
        self.stats.count(now, request);
        if request.op == Op::Read {
            self.throttle.read_took(now - request.dispatched);
        }
        if request.throttled && self.throttle.done(now) {
            woken.extend(self.throttle_waiters.drain(..));
        }
        if !self.tag_waiters.is_empty() {
            self.freed += 1;
            if self.freed >= self.wake_batch() || self.tags[pool] >= self.nr_requests {
                self.freed = 0;
                // As many as there are tags for; the others sleep on (`sbitmap_queue_wake_up`).
                let most = self.tag_waiters.len().min(self.wake_batch() as usize);
                woken.extend(self.tag_waiters.drain(..most));
            }
        }
    }

    #[inline]
    fn pool(&self, op: Op) -> usize {
        if self.multi_queue { 0 } else { op as usize }
    }

    /// lib/sbitmap.c: waiters are woken when this many tags have become free.
    fn wake_batch(&self) -> u32 {
        if self.multi_queue { (self.nr_requests / 8).clamp(1, 8) } else { 1 }
    }

    /// What the disk counted, at the end.
    pub fn finish(&mut self) -> DiskStats {
        self.stats.busy_ns = self.disk.busy_ns();
        self.stats.work = self.disk.work();
        std::mem::take(&mut self.stats)
    }
}
