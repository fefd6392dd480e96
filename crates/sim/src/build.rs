//! From a cell to a run that can begin; everything that cannot work is found here.

use crate::cell::Cell;
use crate::engine::{End, Role, Simulation, Task};
use crate::error::SimError;
use crate::kernel::Kernel;
use crate::load;
use crate::metrics::MetricsRecorder;
use crate::targets::{self, Environment};
use crate::task::job::Job;
use crate::task::journal::Journal;
use crate::task::replay::{Replay, ReplayIos};

/// The name of a replay's group in results.
const REPLAY: &str = "replay";

/// Builds a cell's stack and tasks; `trace` is what it replays.
pub fn simulation(cell: &Cell, trace: Option<ReplayIos>) -> Result<Simulation, SimError> {
    let environment = Environment {
        kernel: Kernel::parse(&cell.kernel)?,
        host: &cell.host,
        filesystem: cell.filesystem.is_some(),
    };
    let (targets, top) = targets::build(&cell.stack, &cell.devices, &environment)?;
    let tasks = tasks(cell, trace, top.limits.sectors)?;
    let names = cell.jobs.iter().map(|j| j.name.clone()).chain(cell.replay.iter().map(|_| REPLAY.into()));
    let end = End {
        runtime: cell.runtime_ns.map_or(u64::MAX, |r| r.saturating_add(cell.ramp_ns)),
        max_ios: cell.max_ios.unwrap_or(u64::MAX),
        at_once: cell.replay.is_some(),
    };
    let metrics = MetricsRecorder::new(names, cell.ramp_ns);
    Ok(Simulation::new(targets, top, tasks, cell.host.clone(), cell.seed, end, metrics))
}

/// Who submits I/Os to a stack of so many sectors.
fn tasks(cell: &Cell, trace: Option<ReplayIos>, sectors: u64) -> Result<Vec<Task>, SimError> {
    let mut tasks = Vec::new();
    for (group, spec) in cell.jobs.iter().enumerate() {
        check(spec, sectors)?;
        for index in 0..spec.numjobs {
            let job = Job::new(spec, index, cell.seed ^ (group as u64) << 32);
            tasks.push(Task::new(Role::Job(Box::new(job)), group));
        }
    }
    match (&cell.replay, trace) {
        (Some(spec), Some(ios)) => {
            let replay = Replay::new(spec, ios, sectors)?;
            tasks.push(Task::new(Role::Replay(Box::new(replay)), cell.jobs.len()));
        }
        (None, None) => {}
        (Some(_), None) => return Err(SimError::Replay("there is no trace to replay".into())),
        (None, Some(_)) => {
            return Err(SimError::Replay("the cell does not say how to replay a trace".into()));
        }
    }
    if let Some(filesystem) = &cell.filesystem {
        let journal = Journal::new(filesystem.commit_ns, sectors);
        tasks.push(Task::new(Role::Journal(Box::new(journal)), 0));
    }
    Ok(tasks)
}

fn check(job: &load::Job, sectors: u64) -> Result<(), SimError> {
    let wrong = |why: String| Err(SimError::Job { name: job.name.clone(), why });
    let last = u64::from(job.numjobs.max(1) - 1);
    let end =
        job.offset_increment.checked_mul(last).and_then(|o| o.checked_add(job.offset)?.checked_add(job.size));
    if end.is_none_or(|end| end > sectors * 512) {
        let end = end.map_or("beyond 16 EiB".into(), |e| e.to_string());
        return wrong(format!("its region ends at byte {end}, the stack at byte {}", sectors * 512));
    }
    if job.read_sizes.is_empty() || job.write_sizes.is_empty() {
        return wrong("it has no sizes".into());
    }
    let sizes = job.read_sizes.iter().chain(&job.write_sizes);
    if sizes
        .into_iter()
        .any(|&(bytes, weight)| bytes == 0 || !bytes.is_multiple_of(512) || weight.is_nan() || weight < 0.0)
    {
        return wrong("sizes must be multiples of 512 bytes, with weights of 0 or more".into());
    }
    if job.iodepth == 0 || job.size < 512 || !job.align.is_multiple_of(512) {
        return wrong("iodepth must be at least 1, size at least 512, blocks aligned to 512 bytes".into());
    }
    if !(0.0..=1.0).contains(&job.read_share) {
        return wrong("the share of reads must be between 0 and 1".into());
    }
    Ok(())
}
