//! What everything is that bios pass through: arrays, caches, delays, disk queues. The kernel's device-mapper has
//! the same interface (`struct target_type`: `map`, `end_io`, `io_hints`).

use std::any::Any;
use std::fmt::Debug;

use super::Simulation;
use crate::bio::Bio;
use crate::events::Time;

/// One layer of the stack.
///
/// A target may call [`Simulation::submit`] in [`map`](Self::map) and [`work`](Self::work), where a task runs.
/// Elsewhere, as in the kernel's interrupt context, it completes bios and wakes tasks and its own workers.
pub trait Target: Any + Debug {
    /// What users of the target must know of it.
    fn limits(&self) -> Limits;

    /// Creates background workers: `worker` takes the target's number for one and returns its task.
    fn start(&mut self, _worker: &mut dyn FnMut(u32) -> u32) {}

    /// A task submits a bio to this target.
    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped;

    /// A bio whose owner is this target is done. The number of the bio is free already.
    fn end_io(&mut self, _sim: &mut Simulation, bio: &Bio) {
        unreachable!("no owner of {bio:?}")
    }

    /// A background worker runs: once when the run begins, and each time it is woken.
    fn work(&mut self, _sim: &mut Simulation, _task: u32, _worker: u32) -> Next {
        Next::Sleep
    }

    /// A timer of this target is due ([`Simulation::set_timer`]).
    fn timer(&mut self, _sim: &mut Simulation, _timer: u32) {}

    /// A task's plug ends which holds this back ([`Simulation::plug_request`], [`Simulation::plug_callback`]).
    fn unplug(&mut self, _sim: &mut Simulation, _token: u32) {}

    /// Fails unless nothing is under way.
    #[cfg(test)]
    fn assert_idle(&self) {}

    /// How much room the target has needed for what was under way.
    #[cfg(test)]
    fn room(&self) -> usize {
        0
    }
}

/// What becomes of a bio that was submitted to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// The target has it: it is held or done, or its children are submitted (`DM_MAPIO_SUBMITTED`).
    Taken,
    /// The target has changed it into a bio for a child, and hears no more of it (`DM_MAPIO_REMAPPED`).
    Remapped,
    /// The task must sleep, and the bio comes again when it wakes.
    Wait,
}

/// What a background worker does next, when what it has submitted is sent down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It runs again after this time.
    Again {
        /// What the step costs its processor.
        after: Time,
        /// What happens to its plug.
        plug: PlugAfter,
        /// Nothing wakes it before.
        undisturbed: bool,
    },
    /// The worker ends its plug and sleeps. Something must wake it.
    Sleep,
    /// The worker ends its plug and sleeps. It runs again at this time, or earlier if something wakes it.
    Until(Time),
    /// It ends its plug, and never runs again.
    Finished,
}

/// What happens to a worker's plug after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlugAfter {
    /// It ends.
    Ends,
    /// It ends if it is full.
    EndsIfFull,
    /// It stays.
    Stays,
}

/// What a target tells those above it: the kernel's `struct queue_limits`, and what the simulator needs besides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How much it holds.
    pub sectors: u64,
    /// `queue/rotational`.
    pub rotational: bool,
    /// `queue/optimal_io_size` in sectors; 0 is none.
    pub io_opt: u64,
    /// Processor time for an I/O on its way through this target and those below.
    pub cpu_ns: Time,
}

/// A target as those above it know it.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// Its number, to address bios.
    pub target: u16,
    /// What must be known of it.
    pub limits: Limits,
}
