//! The engine: plays the events of one run and holds all its state.
//!
//! A bio goes down through the targets to a disk's queue (`submit`), becomes or joins a request, and comes back up
//! when the disk is done (`complete`). Tasks submit bios one by one at their own pace, and sleep where the kernel
//! would let them sleep: for a tag, in the writeback throttle, for a completion.

mod buffered;
mod event_loop;
mod journal;
mod replay;
mod task;
#[cfg(test)]
mod tests;

use crate::arena::Numbered;
use crate::bio::{Bio, Bios, Flags, NONE, Op, Owner};
use crate::error::SimError;
use crate::events::{Event, EventQueue, Time};
use crate::load::Host;
use crate::metrics::MetricsRecorder;
use crate::rng::Rng;
use crate::task::placement::Placement;
use crate::task::writeback::Writeback;
pub use event_loop::FinishedRun;
use std::any::Any;
use task::Cores;
pub use task::{Plugged, Role, Task, WaitList};

const PAGE_BYTES: u32 = 4096;

/// A task's I/O in flight.
#[derive(Clone, Copy, Debug)]
struct TaskIo {
    task: u32,
    op: Op,
    bytes: u32,
    start: Time,
    timed: bool, // Whether its latency counts
}

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub struct StopCondition {
    pub runtime: Time, // After this much simulated time
    pub max_ios: u64,  // After this many I/Os
    pub at_once: bool, // Whether it ends at that time even if I/Os are in flight: when a trace is replayed
}

/// One run. Targets get it in every call: the time, bios, other tasks, random numbers.
pub struct Simulation {
    pub now: Time,          // The simulated time
    pub events: EventQueue, // Events to come
    pub bios: Bios,         // All bios in flight
    pub host: Host,         // Processor time for an I/O
    pub rng: Rng,           // Random numbers, the same for the same seed
    /// A target is taken out while it is called, because it gets the simulation as well.
    targets: Vec<Option<Box<dyn Target>>>,
    top: Child,
    pub tasks: Vec<Task>,
    ios: Numbered<TaskIo>,
    stop_condition: StopCondition,
    metrics: MetricsRecorder,
    journal: Option<u32>,      // The journal's task, if there is a filesystem
    journal_waiters: WaitList, // Tasks that wait until the journal lets them write
    running: usize,            // Jobs and replays that are not finished
    cpu_time: Time,            // Time that jobs have spent on their processors
    cores: Option<Cores>,      // The cores, if there are fewer than tasks
    /// Where the files of the jobs lie, if they are spread.
    pub placement: Option<Placement>,
    /// Dirty pages, if jobs write through the page cache.
    pub writeback: Option<Box<Writeback>>,
    writers: WaitList,         // Jobs that wait until fewer pages are dirty
    failure: Option<SimError>, // The error that ends the run early
}

impl Simulation {
    /// A run of `tasks` on `targets`; tasks submit to `top`.
    pub fn new(
        mut targets: Vec<Box<dyn Target>>, top: Child, mut tasks: Vec<Task>, host: Host, seed: u64,
        stop_condition: StopCondition, metrics: MetricsRecorder,
    ) -> Self {
        let running = tasks.iter().filter(|task| !matches!(task.role, Role::Journal(_) | Role::Flusher)).count();
        let journal = tasks.iter().position(|task| matches!(task.role, Role::Journal(_)));
        for (number, target) in (0..).zip(&mut targets) {
            target.start(&mut |worker| {
                tasks.push(Task::new(Role::Worker { target: number, worker }, 0));
                tasks.len() as u32 - 1
            });
        }
        let cores = Cores::shared(host.cores, tasks.len());
        tasks.iter_mut().for_each(|task| task.io_ns = task.io_price(&host, &top.limits));
        Self {
            now: 0,
            events: EventQueue::default(),
            bios: Bios::default(),
            host,
            rng: Rng::new(seed),
            targets: targets.into_iter().map(Some).collect(),
            top,
            tasks,
            ios: Numbered::default(),
            stop_condition,
            metrics,
            journal: journal.map(|task| task as u32),
            journal_waiters: WaitList::default(),
            running,
            cpu_time: 0,
            cores,
            placement: None,
            writeback: None,
            writers: WaitList::default(),
            failure: None,
        }
    }

    // What targets call.

    /// Submits a bio to its target, behind the bios that the task has already submitted in this call.
    pub fn submit(&mut self, task: u32, number: u32) {
        self.tasks[task as usize].work.push_back(number);
    }

    /// Makes a bio and submits it; `io` is the operation, the target, the first sector, and how many.
    pub fn submit_new(&mut self, task: u32, io: (Op, u16, u64, u32), flags: Flags, owner: Owner) {
        let (op, target, sector, sectors) = io;
        let bio = Bio { target, op, flags, sector, sectors, owner, task, remaining: 0, private: 0, next: NONE };
        let number = self.bios.add(bio);
        self.submit(task, number);
    }

    /// Counts look-ups in a cache over time: blocks or bios, as the cache counts them.
    pub fn record_lookups(&mut self, hits: u64, misses: u64) {
        self.metrics.record_lookups(hits, misses, self.now);
    }

    /// Completes a bio: calls its owner.
    pub fn complete(&mut self, number: u32) {
        let bio = &self.bios[number];
        match bio.owner {
            Owner::Target { target, .. } => {
                let bio = *bio;
                self.bios.remove(number);
                let mut owner = self.take_target(target);
                owner.end_io(self, &bio);
                self.put_target(target, owner);
            }
            Owner::Task(io) => {
                if bio.flags.has(Flags::FAILED) {
                    self.fail_run(SimError::Io { op: bio.op, sector: bio.sector, sectors: bio.sectors });
                }
                self.bios.remove(number);
                self.complete_io(io);
            }
            Owner::Bio(parent) => {
                let bio = *bio;
                self.bios.remove(number);
                if self.count_part(parent, &bio) {
                    self.complete(parent);
                }
            }
        }
    }

    /// Splits a bio: submits a part of it to the same target. The bio is done when all its parts are.
    pub fn split(&mut self, task: u32, number: u32, sector: u64, sectors: u32) {
        let bio = &mut self.bios[number];
        bio.remaining += 1;
        let part = bio.clone_for(bio.target, sector, sectors, Owner::Bio(number));
        let part = self.bios.add(part);
        self.submit(task, part);
    }

    /// Counts a part of a bio that is done, and passes its error on. True if it was the last one.
    pub fn count_part(&mut self, parent: u32, part: &Bio) -> bool {
        let bio = &mut self.bios[parent];
        bio.flags = bio.flags.with(part.flags.only(Flags::FAILED));
        bio.remaining -= 1;
        bio.remaining == 0
    }

    /// Ends a part of a bio that was no bio itself.
    pub fn end_part(&mut self, parent: u32) {
        self.bios[parent].remaining -= 1;
        if self.bios[parent].remaining == 0 {
            self.complete(parent);
        }
    }

    /// Lets a task run after the time that waking takes; it waits for something other than its completions.
    pub fn wake_up(&mut self, task: u32) {
        self.events.schedule(self.now + self.host.wake_ns, Event::task(task));
    }

    /// Wakes a worker if it sleeps.
    pub fn wake_worker(&mut self, task: u32) {
        if std::mem::take(&mut self.tasks[task as usize].sleeping) {
            self.wake_up(task);
        }
    }

    /// Lets a worker run at a time, even if it does not sleep.
    pub fn run_worker_at(&mut self, time: Time, task: u32) {
        self.events.schedule(time, Event::task(task));
    }

    /// Sets a timer of a target; `timer` is the target's own number for it.
    pub fn set_timer(&mut self, time: Time, target: u16, timer: u32) {
        self.events.schedule(time, Event::timer(target, timer));
    }

    // The path of a bio down to the disks.

    #[inline(always)]
    fn take_target(&mut self, target: u16) -> Box<dyn Target> {
        self.targets[target as usize].take().expect("a target is not called while it is being called")
    }

    #[inline(always)]
    fn put_target(&mut self, target: u16, callee: Box<dyn Target>) {
        // The slot is empty, so there is nothing to drop.
        std::mem::forget(self.targets[target as usize].replace(callee));
    }

    /// Maps a task's queued bios until all are in queues (true) or one must wait (false).
    fn send_queued_bios(&mut self, task: u32) -> bool {
        while let Some(number) = self.tasks[task as usize].work.pop_front() {
            if !self.map_bio(task, number) {
                self.tasks[task as usize].blocked = true;
                self.unplug(task);
                return false;
            }
        }
        true
    }

    /// Sends a bio one level down. False if the task must sleep.
    #[inline(always)]
    fn map_bio(&mut self, task: u32, number: u32) -> bool {
        let target = self.bios[number].target;
        let before = self.tasks[task as usize].work.len();
        let mut callee = self.take_target(target);
        let mapped = callee.map(self, task, number);
        self.put_target(target, callee);
        if mapped != Mapped::Taken {
            self.tasks[task as usize].work.push_front(number);
        } else if before > 0 {
            // Bios that a target creates are sent before those submitted after the bio.
            let work = &mut self.tasks[task as usize].work;
            work.rotate_right(work.len() - before);
        }
        mapped != Mapped::Wait
    }

    /// Ends the plug, as at the end of a system call: its requests go into the elevators.
    #[inline(always)]
    fn unplug(&mut self, task: u32) {
        let Task { plug, callbacks, .. } = &self.tasks[task as usize];
        if !plug.is_empty() || !callbacks.is_empty() {
            self.unplug_all(task);
        }
    }

    #[inline(never)]
    fn unplug_all(&mut self, task: u32) {
        // Nothing is added to the plug meanwhile.
        let mut place = 0;
        while let Some(Plugged { target, token }) = self.tasks[task as usize].plugged(place) {
            let mut callee = self.take_target(target);
            callee.unplug(self, token);
            self.put_target(target, callee);
            place += 1;
        }
        let Task { plug, callbacks, .. } = &mut self.tasks[task as usize];
        plug.clear();
        callbacks.clear();
    }

    /// Makes an I/O of a task and queues its bio at the top of the stack. Returns the number of the I/O.
    fn make_io(&mut self, task: u32, op: Op, sector: u64, bytes: u32, flags: Flags) -> u32 {
        let is_of_file = bytes > 0 && matches!(self.tasks[task as usize].role, Role::Job(_) | Role::Flusher);
        let sector = match &self.placement {
            Some(placement) if is_of_file => placement.locate(sector, u64::from(bytes / 512)),
            _ => sector,
        };
        self.submit_task_io(TaskIo { task, op, bytes, start: self.now, timed: true }, sector, flags)
    }

    fn submit_task_io(&mut self, io: TaskIo, sector: u64, flags: Flags) -> u32 {
        self.submit_to(self.top.target, io, sector, flags)
    }

    /// Queues a task's I/O at a target. Returns the number of the I/O.
    fn submit_to(&mut self, target: u16, io: TaskIo, sector: u64, flags: Flags) -> u32 {
        let TaskIo { task, op, bytes, .. } = io;
        self.tasks[task as usize].io_pages = Time::from(bytes.div_ceil(PAGE_BYTES));
        let number = self.ios.add(io);
        self.submit_new(task, (op, target, sector, bytes / 512), flags, Owner::Task(number));
        number
    }
}

// The interface of everything that bios pass through: arrays, caches, delays, disk queues. The kernel's
// device-mapper has the same interface (`struct target_type`: `map`, `end_io`, `io_hints`).

/// One layer of the stack.
///
/// A target may call [`Simulation::submit`] in [`map`](Self::map) and [`work`](Self::work), where a task runs.
/// Elsewhere, as in the kernel's interrupt context, it completes bios and wakes tasks and its own workers.
pub trait Target: Any {
    /// Creates background workers: `worker` takes the target's own number for a worker and returns its task.
    fn start(&mut self, _worker: &mut dyn FnMut(u32) -> u32) {}

    /// A task submits a bio to this target.
    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped;

    /// A bio that this target owns is done. The bio's number is already free.
    fn end_io(&mut self, _sim: &mut Simulation, bio: &Bio) {
        unreachable!("no owner of {bio:?}")
    }

    /// A background worker runs: when the run begins, and each time something wakes it.
    fn work(&mut self, _sim: &mut Simulation, _task: u32, _worker: u32) -> WorkerNext {
        WorkerNext::Sleep
    }

    /// A timer of this target is due ([`Simulation::set_timer`]).
    fn timer(&mut self, _sim: &mut Simulation, _timer: u32) {}

    /// The plug of a task ends that holds this back ([`Task::plug`], [`Task::callbacks`]).
    fn unplug(&mut self, _sim: &mut Simulation, _token: u32) {}
}

/// The result of [`Target::map`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// The target has taken the bio: it holds it, has completed it, or has submitted children (`DM_MAPIO_SUBMITTED`).
    Taken,
    /// The target has changed it into a bio for a child, and is not called when it is done (`DM_MAPIO_REMAPPED`).
    Remapped,
    Wait, // The task must sleep. The bio is mapped again when the task wakes.
}

/// What a background worker does after the bios that it submitted have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerNext {
    /// It runs again after this time.
    Again {
        after: Time,       // Processor time of the step
        plug: PlugAfter,   // What happens to its plug
        undisturbed: bool, // Whether nothing can wake it earlier
    },
    Sleep,       // The worker ends its plug and sleeps. Something must wake it.
    Until(Time), // The worker ends its plug and sleeps. It runs again at this time, or earlier if something wakes it.
    Finished,    // The worker ends its plug and never runs again
}

/// What happens to a worker's plug after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlugAfter {
    Ends,
    EndsIfFull, // It ends if it is full
    Stays,
}

/// What targets above must know of a target: the kernel's `struct queue_limits`, and what the simulator needs in
/// addition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub sectors: u64,         // How much it holds
    pub rotational: bool,     // `queue/rotational`
    pub fast: bool,           // Whether processors can be its limit
    pub io_opt: u64,          // `queue/optimal_io_size` in sectors; 0 is none
    pub chunk: u64,           // Sectors of a chunk, whose limits split bios; 0 is none
    pub cpu_ns: Time,         // Processor time for an I/O on its way through this target and those below
    pub punt_ns: Time,        // The same for one of io_uring that a worker must submit
    pub short_write_ns: Time, // How much longer a write takes that is shorter than a block of 4 KiB
}

/// A target as its parent sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Child {
    pub target: u16,    // Its number: the `target` of bios for it
    pub limits: Limits, // Its size and properties
}
