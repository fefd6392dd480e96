//! The interface of everything that bios pass through: arrays, caches, delays, disk queues. The kernel's
//! device-mapper has the same interface (`struct target_type`: `map`, `end_io`, `io_hints`).

use std::any::Any;

use super::Simulation;
use crate::bio::Bio;
use crate::events::Time;

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

    /// The plug of a task ends that holds this back ([`Simulation::plug_request`], [`Simulation::plug_callback`]).
    fn unplug(&mut self, _sim: &mut Simulation, _token: u32) {}

    /// Panics if anything is in flight.
    #[cfg(test)]
    fn assert_idle(&self) {}

    /// The size of the target's collections.
    #[cfg(test)]
    fn peak_size(&self) -> usize {
        0
    }
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
    pub sectors: u64,     // How much it holds
    pub rotational: bool, // `queue/rotational`
    pub fast: bool,       // Whether processors can be its limit
    pub io_opt: u64,      // `queue/optimal_io_size` in sectors; 0 is none
    pub cpu_ns: Time,     // Processor time for an I/O on its way through this target and those below
    pub punt_ns: Time,    // The same for one of io_uring that a worker must submit
}

/// A target as its parent sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Child {
    pub target: u16,    // Its number: the `target` of bios for it
    pub limits: Limits, // Its size and properties
}
