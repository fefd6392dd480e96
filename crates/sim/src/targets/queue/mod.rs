//! The block layer above one disk: merging, tags, the elevator, throttling, and what /proc/diskstats counts.

mod elevator;
#[cfg(test)]
mod tests;
mod wbt;

use crate::arena::{Arena, ArenaItem};
use crate::bio::{Bio, Flags, NONE, Op};
use crate::device::{Admission, Controller, Disk, DiskCommand, DiskEvents, DiskWork, Model};
use crate::engine::{Mapped, Plugged, Simulation, Target, WaitList};
use crate::events::Time;
use crate::kernel::Kernel;
use crate::load::SCSI_SUBMIT_PER_CENT;
use elevator::Elevator;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use wbt::WritebackThrottle;

/// A bit of a timer's number: the controller has served the request.
const SERVED: u32 = 1 << 31;
/// A bit of a timer's number: the disk has written sectors from the controller's cache; the other bits are their number.
const DRAINED: u32 = 1 << 30;
/// Writes from a controller's cache that a disk has at the same time. With three, a full cache gains as little as was
/// measured: two WD disks of 1 TB as RAID-0 did 598 random writes per second and 546 reads (gist dmsimard/2737832d).
const DRAINS: u32 = 3;

pub struct DiskQueue {
    id: u16,
    start: u64,       // Where the partition begins, in bytes of the disk
    max_sectors: u32, // The largest request, in sectors
    depth: u32,
    nr_requests: u32,
    multi_queue: bool,
    write_back: bool,
    requests: Requests,
    plugged: u32, // Requests that tasks' plugs hold
    edges: u64,   // The pages, modulo 64, where bios begin and end that came since a plug holds some
    elevator: Elevator,
    throttle: WritebackThrottle,
    disk: Disk,
    controller: Option<Rc<RefCell<Controller>>>,
    draining: u32,   // Writes from its cache that the disk has
    drained_to: u64, // Where the last of them ends
    /// Free tags. Single-queue kernels have as many for reads as for writes (`struct request_list`); multi-queue
    /// kernels have one pool, the first.
    tags: [u32; 2],
    in_disk: u32,
    /// Without a budget (virtio, NVMe) mq-deadline gives up one request more than the disk has slots for, which then
    /// waits in `hctx->dispatch`, where nothing is merged into it. SCSI disks are asked first (`scsi_mq_get_budget`).
    holds_one: bool,
    held: Option<u32>,
    /// A queue has one flush in flight. Those that come meanwhile share the next one (`blk_kick_flush`).
    flushes: Vec<u32>,
    flushing: Vec<u32>, // Those that the running flush serves
    /// SATA's FLUSH CACHE is not a queued command: the disk must be empty, and runs nothing else with it. A controller
    /// with a write cache answers flushes itself.
    flushes_alone: bool,
    /// Whether the disk has writes with forced unit access; otherwise a flush follows them (`blk_flush_policy`). libata
    /// does not use those of SATA disks (`libata.fua=0`), and virtio has none.
    has_fua: bool,
    /// Whether requests pass the SCSI layer, which takes a processor's time.
    is_scsi: bool,
    freed: u32, // Tags that became free since tasks were last woken
    tag_waiters: WaitList,
    throttle_waiters: WaitList,
    stats: DiskStats,
}

impl Target for DiskQueue {
    /// Takes a bio of a task: merges it, makes it a request, or puts the task to sleep.
    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped {
        let bio = sim.bios[number];
        if bio.sectors > self.max_sectors || bio.op == Op::Discard {
            return self.map_special(sim, task, number, &bio);
        }
        self.admit(sim, task, number, &bio)
    }

    /// The disk has finished a request, or its own timer is due.
    fn timer(&mut self, sim: &mut Simulation, timer: u32) {
        if timer == DiskEvents::OWN_TIMER {
            self.disk.timer(sim.now, &mut DiskEvents::new(&mut sim.events, self.id));
        } else if self.controller.is_some() {
            self.continue_in_controller(sim, timer);
        } else {
            self.end_request(sim, timer & !SERVED);
        }
    }

    /// Puts a new request into the elevator, or sends it directly to the disk if none waits.
    fn unplug(&mut self, sim: &mut Simulation, number: u32) {
        self.plugged -= 1;
        if self.plugged == 0 {
            self.edges = 0;
        }
        let request = &self.requests[number];
        if request.op == Op::Flush {
            self.flushes.push(number);
            self.dispatch(sim);
        } else if self.elevator.waiting == 0 && self.can_dispatch() {
            self.send_to_disk(sim, number);
        } else {
            self.elevator.insert(sim.now, number, request);
            self.dispatch(sim);
        }
    }
}

impl DiskQueue {
    /// The queue of a device, which is target `id` of the stack.
    pub fn new(device: &Device, id: u16, kernel: Kernel, controller: Option<Rc<RefCell<Controller>>>) -> Self {
        let queue = &device.queue;
        let target = if kernel.throttles_writeback() { queue.wbt_lat_ns } else { 0 };
        Self {
            id,
            start: device.start,
            max_sectors: (queue.max_bytes / 512).max(8),
            depth: queue.queue_depth.max(1),
            nr_requests: queue.nr_requests.max(1),
            // Single-queue kernels are recognised by their elevators.
            multi_queue: matches!(queue.scheduler, Scheduler::None | Scheduler::MqDeadline),
            write_back: queue.write_back,
            requests: Requests::default(),
            plugged: 0,
            edges: 0,
            elevator: Elevator::new(queue.scheduler),
            throttle: WritebackThrottle::new(target, queue.queue_depth.max(1), queue.write_back),
            disk: Disk::new(&device.model),
            draining: 0,
            drained_to: 0,
            tags: [queue.nr_requests.max(1); 2],
            in_disk: 0,
            holds_one: queue.scheduler == Scheduler::MqDeadline
                && matches!(device.model, Model::Nvme(_) | Model::Throttled(_)),
            held: None,
            flushes: Vec::new(),
            flushing: Vec::new(),
            flushes_alone: !matches!(device.model, Model::Nvme(_) | Model::Throttled(_))
                && !controller.as_ref().is_some_and(|controller| controller.borrow().has_cache()),
            has_fua: matches!(device.model, Model::Nvme(_)),
            is_scsi: matches!(device.model, Model::Ssd(_) | Model::Hdd(_)),
            freed: 0,
            tag_waiters: WaitList::default(),
            throttle_waiters: WaitList::default(),
            controller,
            stats: DiskStats { name: device.name.clone(), ..DiskStats::default() },
        }
    }

    /// Gives a command to the disk, unless the controller in front of it answers it.
    #[inline(always)]
    fn start_command(&mut self, sim: &mut Simulation, command: DiskCommand) {
        let admission = self.controller.as_ref().map(|controller| controller.borrow_mut().start(self.id, command));
        match admission {
            None | Some(Admission::Passed) => {
                self.disk.start(sim.now, command, &mut DiskEvents::new(&mut sim.events, self.id));
            }
            Some(Admission::Cached) => self.pass_controller(sim, self.id, command.request, command.bytes),
            Some(Admission::Waits) => self.stats.cache_waits += 1,
        }
    }

    /// The disk has done a command, or a write from the controller's cache, or the controller has served a request. The
    /// cache then takes waiting writes, and the disk more of what it holds.
    #[cold]
    fn continue_in_controller(&mut self, sim: &mut Simulation, timer: u32) {
        let Some(controller) = self.controller.clone() else { return };
        if timer & SERVED != 0 {
            self.end_request(sim, timer & !SERVED);
        } else if timer & DRAINED != 0 {
            self.draining -= 1;
            controller.borrow_mut().free(u64::from(timer & !DRAINED) * 512);
            for (disk, command) in std::iter::from_fn(|| controller.borrow_mut().admit()) {
                self.pass_controller(sim, disk, command.request, command.bytes);
            }
        } else {
            self.pass_controller(sim, self.id, timer, self.requests[timer].sectors * 512);
        }
        while self.draining < DRAINS
            && let Some((byte, bytes)) = controller.borrow_mut().next_dirty(self.id, self.drained_to)
        {
            self.draining += 1;
            self.drained_to = byte + u64::from(bytes);
            let command = DiskCommand { request: DRAINED | (bytes / 512), op: Op::Write, byte, bytes, fua: false };
            self.disk.start(sim.now, command, &mut DiskEvents::new(&mut sim.events, self.id));
        }
    }

    /// A request of a disk passes the controller before the host learns of it.
    #[cold]
    fn pass_controller(&mut self, sim: &mut Simulation, disk: u16, request: u32, bytes: u32) {
        let Some(controller) = &self.controller else { return };
        let (done, work, held_ns) = controller.borrow_mut().serve(sim.now, u64::from(bytes));
        self.stats.controller_ns += work as u64;
        self.stats.held_ns += held_ns;
        DiskEvents::new(&mut sim.events, disk).plan_completion(done, request | SERVED);
    }

    /// Maps discards, and bios that are larger than a request.
    #[cold]
    fn map_special(&mut self, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) -> Mapped {
        if bio.op == Op::Discard {
            self.disk.discard(self.start + bio.sector * 512, u64::from(bio.sectors) * 512);
            sim.complete(number);
            return Mapped::Taken;
        }
        // It is larger than a request can be, so it is split (`blk_bio_segment_split`).
        let mut sector = bio.sector;
        while sector < bio.end() {
            let sectors = u64::from(self.max_sectors).min(bio.end() - sector) as u32;
            sim.split(task, number, sector, sectors);
            sector += u64::from(sectors);
        }
        Mapped::Taken
    }

    fn admit(&mut self, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) -> Mapped {
        let now = sim.now;
        if bio.op == Op::Flush {
            return self.add_request(sim, task, number, bio, false);
        }
        if self.try_merge(sim, task, number, bio) {
            return Mapped::Taken;
        }
        let pool = self.tag_pool(bio.op);
        if self.tags[pool] == 0 {
            self.stats.tag_waits += 1;
            self.tag_waiters.add(task);
            return Mapped::Wait;
        }
        let throttled = bio.op == Op::Write && !bio.flags.has(Flags::DIRECT) && self.throttle.is_on();
        // A task that comes while others sleep sleeps behind them (`rq_qos_wait`: `has_sleeper`).
        if throttled && (!self.throttle_waiters.is_empty() || !self.throttle.admit(now)) {
            self.stats.throttle_waits += 1;
            self.throttle_waiters.add(task);
            return Mapped::Wait;
        }
        self.tags[pool] -= 1;
        self.add_request(sim, task, number, bio, throttled)
    }

    /// Makes a request, which is held back until the task's plug ends.
    fn add_request(&mut self, sim: &mut Simulation, task: u32, bio_number: u32, bio: &Bio, throttled: bool) -> Mapped {
        let token = self.requests.add(Request {
            op: bio.op,
            fua: bio.op == Op::Write && bio.flags.has(Flags::FUA) && self.write_back,
            throttled,
            sector: bio.sector,
            sectors: bio.sectors,
            first: bio_number,
            last: bio_number,
            task,
            start: sim.now,
            dispatched: sim.now,
        });
        self.plugged += 1;
        sim.tasks[task as usize].plug.push(Plugged { target: self.id, token });
        if self.is_scsi {
            let per_cent = if sim.tasks[task as usize].is_worker() { SCSI_SUBMIT_PER_CENT } else { 100 };
            sim.spend(task, sim.host.scsi_ns * per_cent / 100);
        }
        Mapped::Taken
    }

    fn try_merge(&mut self, sim: &mut Simulation, task: u32, number: u32, bio: &Bio) -> bool {
        let (sector, end) = (bio.sector, bio.end());
        let plugged = self.find_plugged(sim, task, bio);
        // Neither a bio nor a request that must be durable is merged (`REQ_NOMERGE_FLAGS`).
        let candidate = plugged
            .map(|(n, back)| (n, back, false))
            .or_else(|| self.elevator.find_merge(bio.op, sector, end, &self.requests).map(|(n, back)| (n, back, true)));
        let Some((request_number, back, waiting)) = candidate else { return false };
        let request = &mut self.requests[request_number];
        if request.fua || bio.flags.has(Flags::FUA) || request.sectors + bio.sectors > self.max_sectors {
            return false;
        }
        request.sectors += bio.sectors;
        if back {
            sim.bios[request.last].next = number;
            request.last = number;
        } else {
            let from = request.sector;
            sim.bios[number].next = request.first;
            request.first = number;
            request.sector = bio.sector;
            if waiting {
                self.elevator.reposition(request_number, from, request);
            }
        }
        self.stats.merges[bio.op as usize] += 1;
        true
    }

    /// The newest request in the task's plug that a bio can be merged into, at its back (`true`) or front.
    fn find_plugged(&mut self, sim: &Simulation, task: u32, bio: &Bio) -> Option<(u32, bool)> {
        let edge = |sector: u64| 1 << (sector / 8 % 64);
        let new = edge(bio.sector) | edge(bio.end());
        let known = self.edges & new != 0;
        self.edges |= new;
        if !known {
            return None;
        }
        let own = sim.tasks[task as usize].plug.iter().rev().filter(|plugged| plugged.target == self.id);
        own.map(|plugged| plugged.token)
            .find_map(|n| elevator::merge_side(&self.requests[n], n, bio.op, bio.sector, bio.end()))
    }

    fn can_dispatch(&self) -> bool {
        self.in_disk < self.depth && (!self.flushes_alone || (self.flushes.is_empty() && self.flushing.is_empty()))
    }

    /// Sends waiting requests to the disk while it has free slots.
    #[inline(always)]
    fn dispatch(&mut self, sim: &mut Simulation) {
        let waiting =
            self.elevator.waiting > 0 && (self.in_disk < self.depth || (self.holds_one && self.held.is_none()));
        if waiting || (self.held.is_some() && self.in_disk < self.depth) || !self.flushes.is_empty() {
            self.dispatch_waiting(sim);
        }
    }

    #[inline(never)]
    fn dispatch_waiting(&mut self, sim: &mut Simulation) {
        if !self.flushes.is_empty() {
            self.dispatch_flush(sim);
        }
        while self.can_dispatch() {
            let next = self.held.take().or_else(|| self.elevator.next_request(sim.now, &self.requests));
            let Some(number) = next else { return };
            self.send_to_disk(sim, number);
        }
        if self.holds_one && self.held.is_none() {
            self.held = self.elevator.next_request(sim.now, &self.requests);
        }
    }

    /// Sends a flush for all that wait. Without a volatile cache the block layer completes them itself
    /// (`blk_insert_flush`).
    fn dispatch_flush(&mut self, sim: &mut Simulation) {
        if !self.write_back {
            // Neither the disk nor its controller sees them.
            let mut events = DiskEvents::new(&mut sim.events, self.id);
            for number in self.flushes.drain(..) {
                events.plan_completion(sim.now, number | SERVED);
            }
        } else if self.flushing.is_empty() && (self.in_disk == 0 || !self.flushes_alone) {
            std::mem::swap(&mut self.flushing, &mut self.flushes);
            let number = self.flushing[0];
            self.requests[number].dispatched = sim.now;
            self.start_command(sim, DiskCommand { request: number, op: Op::Flush, byte: 0, bytes: 0, fua: false });
        }
    }

    #[inline(always)]
    fn send_to_disk(&mut self, sim: &mut Simulation, number: u32) {
        let request = &mut self.requests[number];
        request.dispatched = sim.now;
        self.in_disk += 1;
        let byte = self.start + request.sector * 512;
        let (op, fua) = (request.op, request.fua && self.has_fua);
        let command = DiskCommand { request: number, op, byte, bytes: request.sectors * 512, fua };
        self.start_command(sim, command);
    }

    /// Ends a request and its bios, sends others to the disk, and wakes tasks.
    fn end_request(&mut self, sim: &mut Simulation, number: u32) {
        let (throttle, tags) = self.count_ended_request(sim.now, number);
        let request = &mut self.requests[number];
        if request.op == Op::Flush {
            self.end_flush(sim, number);
        } else if request.fua && !self.has_fua {
            request.op = Op::Flush;
            self.flushes.push(number);
        } else {
            self.end_bios(sim, number);
        }
        self.dispatch(sim);
        if throttle > 0 {
            self.throttle_waiters.wake(throttle, sim);
        }
        if tags > 0 {
            self.tag_waiters.wake(tags, sim);
        }
    }

    fn end_bios(&mut self, sim: &mut Simulation, number: u32) {
        let mut next = self.requests[number].first;
        self.requests.remove(number);
        while next != NONE {
            let bio = next;
            next = sim.bios[bio].next;
            sim.complete(bio);
        }
    }

    /// Ends all requests that the disk's flush served, or one that needed none.
    #[cold]
    fn end_flush(&mut self, sim: &mut Simulation, number: u32) {
        let mut served = std::mem::take(&mut self.flushing);
        if served.is_empty() {
            served.push(number);
        }
        served.drain(..).for_each(|served| self.end_bios(sim, served));
        self.flushing = served;
    }

    /// Counts a completed request. Returns how many tasks to wake that wait in the throttle, and for tags.
    fn count_ended_request(&mut self, now: Time, number: u32) -> (usize, usize) {
        let request = &self.requests[number];
        if request.op == Op::Flush {
            self.stats.flushes += 1;
            if self.write_back {
                self.stats.flush_ns += now - request.dispatched;
            }
            return (0, 0);
        }
        self.in_disk -= 1;
        let pool = self.tag_pool(request.op);
        self.tags[pool] += 1;
        let (direction, sectors) = (request.op as usize, u64::from(request.sectors));
        self.stats.ios[direction] += 1;
        self.stats.sectors[direction] += sectors;
        self.stats.ticks_ns[direction] += now - request.start;
        if request.op == Op::Read {
            self.throttle.record_read_latency(now - request.dispatched);
        }
        let (mut throttle, mut tags) = (0, 0);
        if request.throttled && self.throttle.release(now) {
            throttle = self.throttle_waiters.len();
        }
        if !self.tag_waiters.is_empty() {
            self.freed += 1;
            if self.freed >= self.wake_batch() || self.tags[pool] >= self.nr_requests {
                self.freed = 0;
                // Only as many as there are free tags; the others sleep on (`sbitmap_queue_wake_up`).
                tags = self.wake_batch() as usize;
            }
        }
        (throttle, tags)
    }

    fn tag_pool(&self, op: Op) -> usize {
        if self.multi_queue { 0 } else { op as usize }
    }

    /// lib/sbitmap.c: the kernel wakes waiting tasks when this many tags are free.
    fn wake_batch(&self) -> u32 {
        if self.multi_queue { (self.nr_requests / 8).clamp(1, 8) } else { 1 }
    }

    /// The disk's statistics.
    pub fn report(&self) -> DiskStats {
        let (work, busy_ns) = self.disk.counts();
        DiskStats { work, busy_ns, ..self.stats.clone() }
    }
}

// Requests: what a disk gets, made of one bio or of several neighbouring ones.

/// A request in a disk's queue or in the disk.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub op: Op,           // The operation
    pub fua: bool,        // Whether it must be durable when it is done
    pub throttled: bool,  // Whether it counts against the writeback throttle
    pub sector: u64,      // In sectors of the disk
    pub sectors: u32,     // How much
    pub first: u32,       // The first of its bios
    pub last: u32,        // The last of its bios
    pub task: u32,        // The task that made it: CFQ is fair among tasks
    pub start: Time,      // When it got its tag; /proc/diskstats counts from then
    pub dispatched: Time, // When it was sent to the disk
}

impl Request {
    /// The sector after the last.
    pub fn end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }
}

impl ArenaItem for Request {
    fn link(&mut self) -> &mut u32 {
        &mut self.first
    }
}

/// All requests in flight.
pub type Requests = Arena<Request>;

// A disk and its queue in documents: in an experiment and in its results.

/// One disk: its model, and how the kernel queues for it.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name in results.
    pub name: String,
    /// Bytes that the stack can use, such as the size of a partition.
    pub bytes: u64,
    /// Byte of the disk at which the bytes of the stack begin.
    #[serde(default)]
    pub start: u64,
    /// The model of the disk.
    pub model: Model,
    /// The block layer's queue.
    pub queue: QueueSettings,
    /// The controller in front of it, by its name in `controllers`; `null`: none that limits it.
    pub controller: Option<String>,
}

/// How much longer a write of 3,584 bytes takes than one of 4,096 on a disk that writes 4 KiB at once, because it must read
/// first: 0.43 to 0.66 ms instead of 0.01 to 0.02 ms on Intel P5520 (linux-raid 2023-02-24, commit 8745faa95611).
const SHORT_WRITE_NS: Time = 520_000;

impl Device {
    /// How much longer a write takes that is shorter than a block of 4 KiB. Known of NVMe disks for servers only, which
    /// have no volatile cache.
    pub fn short_write_ns(&self) -> Time {
        if matches!(self.model, Model::Nvme(_)) && !self.queue.write_back { SHORT_WRITE_NS } else { 0 }
    }
}

/// The block layer's queue of one disk, as in `/sys/block/*/queue`.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSettings {
    /// The I/O scheduler.
    pub scheduler: Scheduler,
    /// Requests that the scheduler holds at most, those in the device included (`nr_requests`).
    pub nr_requests: u32,
    /// Requests that the device holds at most: 32 with NCQ, or the length of an NVMe queue.
    pub queue_depth: u32,
    /// Bytes of the largest request (`max_sectors_kb`).
    pub max_bytes: u32,
    /// Whether the kernel takes the disk for a rotating one (`rotational`), which md reads.
    pub rotational: bool,
    /// Read latency in ns that writeback throttling guards (`wbt_lat_usec`); 0 is off.
    pub wbt_lat_ns: u64,
    /// Whether the kernel assumes a volatile write cache (`write_cache`).
    pub write_back: bool,
}

/// I/O schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// First come, first served.
    #[default]
    None,
    /// As `none`, with merging: `noop` of old kernels.
    Noop,
    /// Sorted batches with deadlines, in multi-queue kernels.
    MqDeadline,
    /// As `mq-deadline`, in single-queue kernels.
    Deadline,
    /// Fair queueing of processes, in single-queue kernels.
    Cfq,
}

/// The statistics of a disk, in the words of /proc/diskstats.
#[derive(Clone, Debug, Default, Serialize, crate::JsonSchema)]
pub struct DiskStats {
    /// Name of the disk.
    pub name: String,
    /// Requests completed: reads, writes.
    pub ios: [u64; 2],
    /// Bios that were merged into a waiting request: reads, writes.
    pub merges: [u64; 2],
    /// Sectors moved: reads, writes.
    pub sectors: [u64; 2],
    /// Time from tag to completion in ns, all requests added up: reads, writes.
    pub ticks_ns: [u64; 2],
    /// Flushes completed.
    pub flushes: u64,
    /// Time in which the disk flushed, in ns.
    pub flush_ns: u64,
    /// Time in which the controller worked for this disk, in ns; 0 without a controller.
    pub controller_ns: u64,
    /// Time for which the controller held back completions of this disk, in ns, all added up.
    pub held_ns: u64,
    /// How often a write waited because the controller's write cache was full.
    pub cache_waits: u64,
    /// Time with something in the disk, in ns.
    pub busy_ns: u64,
    /// The work of the disk's parts.
    pub work: DiskWork,
    /// How often a task slept for a tag (`nr_requests`).
    pub tag_waits: u64,
    /// How often a task slept in the writeback throttle.
    pub throttle_waits: u64,
}
