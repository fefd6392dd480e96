//! dm-delay: reads and writes are held before they go on (drivers/md/dm-delay.c, Linux 6.1).
//!
//! A bio expires after whole ticks of the kernel's clock, counted from the last tick (`msecs_to_jiffies`). The timer
//! that releases it fires at the tick after (kernel/time/timer.c, `calc_index`). From 6.8 on, a polling thread releases
//! bios that are held for 50 ms at most ("dm delay: for short delays, use kthread instead of timers and wq").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BuildContext, Built, Node, TargetSpec};
use crate::bio::Op;
use crate::engine::{Child, Limits, Mapped, Simulation, Target, WorkerNext};
use crate::events::Time;

/// A tick: Debian's kernels have 250 a second (`CONFIG_HZ`).
const TICK: Time = 4_000_000;
/// Delays up to this are polled.
const POLLED: Time = 50_000_000;

/// A delay in an experiment.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// Its name in results.
    pub name: String,
    /// The device or stack whose I/Os are delayed.
    pub origin: Box<Node>,
    /// How long a read is held, in ns; the kernel releases it at the next tick of its clock.
    pub read_ns: u64,
    /// How long a write or a discard is held, in ns; the kernel releases it at the next tick of its clock.
    pub write_ns: u64,
    /// How long a flush is held, in ns, also one that precedes a write; without it as long as a write.
    pub flush_ns: Option<u64>,
}

/// What a delay counted.
#[derive(Clone, Debug, Serialize, crate::JsonSchema)]
pub struct DelayReport {
    /// Its name.
    pub name: String,
    /// Bios that were delayed: reads, all others.
    pub held: [u64; 2],
}

/// A delay in a running simulation.
pub struct DelayTarget {
    origin: Child,
    delays: [Time; 3],              // Of reads, of writes, of flushes
    late_ticks: u64,                // Ticks by which the release is late
    held: BTreeMap<Time, Vec<u32>>, // Held bios by the time of their release
    worker: u32,
    report: DelayReport,
}

impl Target for DelayTarget {
    fn start(&mut self, new_worker: &mut dyn FnMut(u32) -> u32) {
        self.worker = new_worker(0);
    }

    fn map(&mut self, sim: &mut Simulation, _task: u32, number: u32) -> Mapped {
        let bio = &mut sim.bios[number];
        bio.target = self.origin.target;
        let is_read = bio.op == Op::Read;
        let delay = self.delays[if is_read { 0 } else { 1 + usize::from(bio.op == Op::Flush) }];
        if delay == 0 {
            return Mapped::Remapped;
        }
        self.report.held[usize::from(!is_read)] += 1;
        let ticks = sim.now / TICK + delay.div_ceil(TICK) + self.late_ticks;
        let bios = self.held.entry(ticks * TICK).or_default();
        if bios.is_empty() {
            sim.run_worker_at(ticks * TICK + sim.host.wake_ns, self.worker);
        }
        bios.push(number);
        Mapped::Taken
    }

    fn work(&mut self, sim: &mut Simulation, task: u32, _worker: u32) -> WorkerNext {
        while let Some(first) = self.held.first_entry()
            && *first.key() <= sim.now
        {
            first.remove().into_iter().for_each(|number| sim.submit(task, number));
        }
        WorkerNext::Sleep
    }
}

impl TargetSpec for Delay {
    type Target = DelayTarget;
    type Report = DelayReport;

    fn children(&self) -> Vec<Option<&Node>> {
        vec![Some(&self.origin)]
    }

    fn build(&self, _id: u16, children: &[Option<Child>], context: &BuildContext) -> Built<DelayTarget> {
        let origin = children[0].ok_or_else(|| format!("{}: a delay needs an origin", self.name))?;
        let cpu_ns = origin.limits.cpu_ns + context.host.md_ns;
        let delays = [self.read_ns, self.write_ns, self.flush_ns.unwrap_or(self.write_ns)];
        let polls = context.kernel.polls_short_delays() && delays.into_iter().all(|delay| delay <= POLLED);
        let target = DelayTarget {
            origin,
            delays,
            late_ticks: u64::from(!polls),
            held: BTreeMap::new(),
            worker: 0,
            report: DelayReport { name: self.name.clone(), held: [0; 2] },
        };
        Ok((target, Limits { cpu_ns, ..origin.limits }))
    }

    fn report(target: &DelayTarget) -> DelayReport {
        target.report.clone()
    }
}

#[cfg(test)]
mod tests;
