//! Locks and shared counters of md and of caches: which operation takes which, by level and kernel, and how long they are held.
//!
//! locks.json is the registry: the lock, the levels and kernels that have it, how often an operation takes it, and the
//! commit or the function that says so. A lock serves in order of arrival, and a task that waits for it spins. That
//! alone adds to an I/O: what a lock costs that is free is part of `md_ns` and `pass_ns` of the host.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::engine::Simulation;
use crate::events::Time;
use crate::kernel::Kernel;
use crate::targets::BuildContext;

/// How long a lock is held that no other core wants, in ns.
const FREE_NS: Time = 45;

/// So many tasks do not crowd at a lock: in the 4 µs or more that each spends on an I/O, it is held for 45 ns at a time.
const FEW_TASKS: u32 = 4;

/// When an operation takes locks.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    Read,     // A read is mapped
    ReadEnd,  // It ends
    Write,    // A write is mapped, or attached to rows of the stripe cache
    WriteEnd, // It ends
    Page,     // The same for each page of 4 KiB of a write
    PageEnd,
    Batch, // A thread takes rows of the stripe cache
}

const MOMENTS: usize = 7;

/// An entry of the registry.
#[derive(Deserialize)]
struct LockSpec {
    name: String,
    of: Vec<String>,        // Who takes it: a level, or the bitmap of a level
    from: Option<String>,   // The first kernel that has it
    before: Option<String>, // The first kernel that no longer has it
    #[serde(default)]
    atomic: bool, // Whether it is a counter without a lock
    ways: Option<Time>,     // How many locks share the work
    takes: Vec<(Moment, Time)>,
}

static REGISTRY: LazyLock<Vec<LockSpec>> =
    LazyLock::new(|| serde_json::from_str(include_str!("locks.json")).expect("the registry is valid"));

/// Which entries of the registry a kernel has.
pub fn present(kernel: Kernel) -> Vec<bool> {
    REGISTRY.iter().map(|spec| spec.is_in(kernel)).collect()
}

impl LockSpec {
    fn is_in(&self, kernel: Kernel) -> bool {
        let version = |text: &Option<String>| text.as_ref().map(|text| Kernel::parse(text).expect("a version"));
        version(&self.from).is_none_or(|from| kernel >= from) && version(&self.before).is_none_or(|end| kernel < end)
    }
}

/// How a lock was used.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct LockUse {
    /// Its name in the kernel.
    pub name: &'static str,
    /// How many locks share the work.
    pub ways: u64,
    /// How long it is held while many cores want it, in ns: `lock_ns` or `atomic_ns` of the host.
    pub contended_ns: u64,
    /// How often it was taken.
    pub taken: u64,
    /// How long it was held, in ns, with the time in which it moved between cores.
    pub held_ns: u64,
}

struct Lock {
    free_at: Time,
    holder: u32,   // The task that had it last
    crowded: bool, // Whether that task waited for it
    usage: LockUse,
}

/// The locks of one target.
#[derive(Default)]
pub struct Locks {
    locks: Vec<Lock>,
    taken: [Vec<(usize, Time)>; MOMENTS], // The locks that a moment takes, and how often
}

impl Locks {
    /// The locks of a target that is all of these, such as `raid1` and `raid1 bitmap`, and that has this many threads,
    /// if enough tasks want them: few find them free, whose cost is part of other prices.
    pub fn new(kinds: &[String], context: &BuildContext, threads: u32) -> Self {
        let mut made = Self::default();
        if context.jobs.iter().map(|job| job.numjobs).sum::<u32>() + threads <= FEW_TASKS {
            return made;
        }
        let has = |spec: &&LockSpec| spec.is_in(context.kernel) && spec.of.iter().any(|of| kinds.contains(of));
        for spec in REGISTRY.iter().filter(has) {
            let known = made.locks.iter().position(|lock| lock.usage.name == spec.name);
            let index = known.unwrap_or_else(|| {
                let contended_ns = if spec.atomic { context.host.atomic_ns } else { context.host.lock_ns }.max(1);
                let ways = spec.ways.unwrap_or(1);
                let usage = LockUse { name: &spec.name, ways, contended_ns, taken: 0, held_ns: 0 };
                made.locks.push(Lock { free_at: 0, holder: u32::MAX, crowded: false, usage });
                made.locks.len() - 1
            });
            for &(moment, times) in &spec.takes {
                made.taken[moment as usize].push((index, times));
            }
        }
        made
    }

    /// A task takes all locks of a moment `times` times, and holds them for `longer` than usual.
    pub fn take(&mut self, sim: &mut Simulation, task: u32, moment: Moment, times: Time, longer: Time) {
        if !self.locks.is_empty() {
            self.take_all(sim, task, moment, times, longer);
        }
    }

    #[inline(never)]
    fn take_all(&mut self, sim: &mut Simulation, task: u32, moment: Moment, times: Time, longer: Time) {
        for &(lock, each) in &self.taken[moment as usize] {
            self.locks[lock].take(sim, task, each * times, longer);
        }
    }

    /// How they were used.
    pub fn usage(&self) -> Vec<LockUse> {
        self.locks.iter().filter(|lock| lock.usage.taken > 0).map(|lock| lock.usage.clone()).collect()
    }
}

impl Lock {
    /// The more cores spin, the longer a lock is held: h(n) = h1 + (h∞ − h1)(1 − 1/n).
    fn take(&mut self, sim: &mut Simulation, task: u32, times: Time, longer: Time) {
        let now = sim.processor_time(task);
        let free = FREE_NS.min(self.usage.contended_ns);
        let (mut wait, mut cores) = (self.free_at.saturating_sub(now), 1);
        if self.holder == task && !self.crowded {
            wait = 0; // a core that takes a lock again does not wait for itself
        } else {
            cores += self.free_at.saturating_sub(sim.now).div_ceil(self.usage.contended_ns);
        }
        self.crowded = cores > 1;
        let moved = (self.usage.contended_ns - free) - (self.usage.contended_ns - free) / cores;
        let held = ((free + moved) * times + longer) / self.usage.ways;
        self.free_at = self.free_at.max(sim.now) + held;
        self.holder = task;
        self.usage.taken += times;
        self.usage.held_ns += held;
        let spun = wait + moved * times / self.usage.ways;
        if spun > 0 {
            sim.spend(task, spun);
        }
    }
}
