//! dm-delay: reads and writes are held before they go on (drivers/md/dm-delay.c, Linux 6.1).
//!
//! A bio expires after whole ticks of the kernel's clock, counted from the last one (`msecs_to_jiffies`). The timer that
//! releases it fires at the tick after (kernel/time/timer.c, `calc_index`); from 6.8 on, a thread that polls releases
//! what is held for 50 ms at most ("dm delay: for short delays, use kthread instead of timers and wq").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Environment, Node, Reported, TargetSpec};
use crate::bio::Op;
use crate::engine::{Child, Limits, Mapped, Next, Simulation, Target};
use crate::events::Time;

/// A tick: Debian's kernels have 250 a second (`CONFIG_HZ`).
const TICK: Time = 4_000_000;
/// Delays up to this one are polled for.
const POLLED: Time = 50_000_000;

/// What an experiment says of a delay.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// The name in results.
    pub name: String,
    /// What is delayed.
    pub origin: Box<Node>,
    /// How long a read is held.
    pub read_ns: u64,
    /// How long a write, a flush or a discard is held.
    pub write_ns: u64,
}

/// What a delay did.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, Serialize)]
pub struct DelayReport {
    /// Its name.
    pub name: String,
    /// Bios held: reads, and everything else.
    pub held: [u64; 2],
}

/// A delay in use.
#[derive(Debug)]
pub struct Delayed {
    origin: Child,
    limits: Limits,
    delays: [Time; 2],
    /// Ticks that the release is late.
    late: u64,
    /// Bios by the time of their release.
    held: BTreeMap<Time, Vec<u32>>,
    worker: u32,
    report: DelayReport,
}

impl Target for Delayed {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn start(&mut self, new_worker: &mut dyn FnMut(u32) -> u32) {
        self.worker = new_worker(0);
    }

    fn map(&mut self, sim: &mut Simulation, _task: u32, number: u32) -> Mapped {
        let bio = &mut sim.bios[number];
        bio.target = self.origin.target;
        let index = usize::from(bio.op != Op::Read);
        if self.delays[index] == 0 {
            return Mapped::Remapped;
        }
        self.report.held[index] += 1;
        let ticks = sim.now / TICK + self.delays[index].div_ceil(TICK) + self.late;
        let bios = self.held.entry(ticks * TICK).or_default();
        if bios.is_empty() {
            sim.run_worker_at(ticks * TICK + sim.host.wake_ns, self.worker);
        }
        bios.push(number);
        Mapped::Taken
    }

    fn work(&mut self, sim: &mut Simulation, task: u32, _worker: u32) -> Next {
        while let Some(first) = self.held.first_entry()
            && *first.key() <= sim.now
        {
            first.remove().into_iter().for_each(|number| sim.submit(task, number));
        }
        Next::Sleep
    }

    #[cfg(test)]
    fn assert_idle(&self) {
        assert!(self.held.is_empty());
    }
}

impl Reported for Delayed {
    type Report = DelayReport;

    fn report(&self) -> DelayReport {
        self.report.clone()
    }
}

impl TargetSpec for Delay {
    type Target = Delayed;

    fn children(&self) -> Vec<Option<&Node>> {
        vec![Some(&self.origin)]
    }

    fn build(
        &self,
        _id: u16,
        children: &[Option<Child>],
        environment: &Environment,
    ) -> Result<Delayed, String> {
        let origin = children[0].ok_or_else(|| format!("{}: there is nothing to delay", self.name))?;
        let cpu_ns = origin.limits.cpu_ns + environment.host.md_ns;
        let delays = [self.read_ns, self.write_ns];
        let polls =
            environment.kernel.polls_short_delays() && delays.into_iter().all(|delay| delay <= POLLED);
        Ok(Delayed {
            origin,
            limits: Limits { cpu_ns, ..origin.limits },
            delays,
            late: u64::from(!polls),
            held: BTreeMap::new(),
            worker: 0,
            report: DelayReport { name: self.name.clone(), held: [0; 2] },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Job;
    use crate::targets::TargetReport;
    use crate::tests::{cell, iops, job, md, play, reads};

    #[test]
    fn a_bio_waits_for_the_tick_after_its_delay() {
        let run = |kernel: &str, load: Job| {
            let mut cell = cell(md(crate::cell::Level::Raid0, 1), &iops(0.0), &[Job { iodepth: 1, ..load }]);
            let origin = Box::new(std::mem::replace(&mut cell.stack, Node::Device(0)));
            cell.stack = Node::Delay(Delay { name: "slow".into(), origin, read_ns: 5_000_000, write_ns: 0 });
            cell.kernel = kernel.into();
            play(&cell)
        };
        // 5 ms are two ticks; the timer fires at the third.
        for (kernel, ticks) in [("6.1", 3.0), ("6.12", 2.0)] {
            let outcome = run(kernel, reads(job(1 << 20, 100)));
            let seconds = ticks * 0.004;
            assert!((outcome.read.iops * seconds - 1.0).abs() < 0.02, "{kernel}: {}", outcome.read.iops);
            assert!(
                matches!(outcome.targets.last(), Some(TargetReport::Delay(delay)) if delay.held == [100, 0])
            );
        }
        assert!(run("6.1", job(1 << 20, 100)).write.iops > 10_000.0);
    }
}
