//! Builds a run from a cell. Everything that makes a cell impossible is an error here.

use std::cell::RefCell;
use std::rc::Rc;

use crate::cell::Cell;
use crate::device::Controller;
use crate::engine::{Child, Limits, Role, Simulation, StopCondition, Task};
use crate::error::SimError;
use crate::kernel::Kernel;
use crate::load;
use crate::metrics::MetricsRecorder;
use crate::targets::{self, BuildContext, BuiltStack};
use crate::task::file_reader::FileReader;
use crate::task::job::JobState;
use crate::task::journal::{Journal, Syncing};
use crate::task::placement::Placement;
use crate::task::read_ahead::PAGE;
use crate::task::replay::{ReplayIos, ReplayState};
use crate::task::writeback::Writeback;

/// The name of a replay's group in results.
const REPLAY: &str = "replay";

/// Builds a cell's stack and tasks; `trace` is what it replays.
pub fn build_simulation(cell: &Cell, trace: Option<ReplayIos>) -> Result<Simulation, SimError> {
    let context = BuildContext {
        kernel: Kernel::parse(&cell.kernel)?,
        host: &cell.host,
        filesystem: cell.filesystem.is_some(),
        jobs: &cell.jobs,
        ran_before: cell.ran_before,
        release: &cell.kernel,
        controllers: (cell.controllers.iter())
            .map(|(name, spec)| (name.as_str(), Rc::new(RefCell::new(Controller::new(spec)))))
            .collect(),
    };
    let device = cell.journal.as_ref().and_then(|journal| journal.device.as_ref());
    let BuiltStack { targets, top, journal } = targets::build(&cell.stack, device, &cell.devices, &context)?;
    let mut tasks = new_tasks(cell, trace, &top.limits, context.kernel)?;
    if cell.filesystem.is_some() || cell.journal.is_some() {
        tasks.push(new_journal(cell, &top, journal, context.kernel)?);
    }
    if cell.jobs.iter().any(|job| job.buffered && job.read_share < 1.0) {
        tasks.push(Task::new(Role::Flusher, 0));
    }
    let flusher = tasks.iter().position(|task| matches!(task.role, Role::Flusher)).map(|task| task as u32);
    let group_names = cell.jobs.iter().map(|j| j.name.clone()).chain(cell.replay.iter().map(|_| REPLAY.into()));
    let stop_condition = StopCondition {
        runtime: cell.runtime_ns.map_or(u64::MAX, |r| r.saturating_add(cell.ramp_ns)),
        max_ios: cell.max_ios.unwrap_or(u64::MAX),
        at_once: cell.replay.is_some(),
    };
    let metrics = MetricsRecorder::new(group_names, cell.ramp_ns);
    let placement = if cell.spread { Placement::spread(span_of(&cell.jobs), top.limits.sectors) } else { None };
    let mut simulation = Simulation::new(targets, top, tasks, cell.host.clone(), cell.seed, stop_condition, metrics);
    simulation.placement = placement;
    simulation.writeback = flusher.map(|task| Box::new(new_writeback(cell, task)));
    Ok(simulation)
}

/// The sectors from the beginning of a stack to the end of the last region of a job.
fn span_of(jobs: &[load::Job]) -> u64 {
    let ends = jobs.iter().map(|job| job.offset + job.offset_increment * u64::from(job.numjobs.max(1) - 1) + job.size);
    ends.max().unwrap_or(0).div_ceil(512)
}

/// The tasks that submit I/Os to a stack of `sectors`.
fn new_tasks(cell: &Cell, trace: Option<ReplayIos>, top: &Limits, kernel: Kernel) -> Result<Vec<Task>, SimError> {
    let sectors = top.sectors;
    let wrong = |why: &str| Err(SimError::Replay(why.into()));
    let mut tasks = Vec::new();
    for (group, spec) in cell.jobs.iter().enumerate() {
        check_job(spec, sectors, kernel)?;
        for index in 0..spec.numjobs {
            let mut job = JobState::new(spec, index, cell.seed ^ (group as u64) << 32);
            if spec.buffered && spec.read_share > 0.0 {
                job.reader = Some(new_reader(cell, spec, top, kernel));
            }
            tasks.push(Task::new(Role::Job(Box::new(job)), group));
        }
    }
    match (&cell.replay, trace) {
        (Some(spec), Some(ios)) => {
            let replay = ReplayState::new(spec, ios, sectors)?;
            tasks.push(Task::new(Role::Replay(Box::new(replay)), cell.jobs.len()));
        }
        (None, None) => {}
        (Some(_), None) => return wrong("the cell has `replay`, but no trace was given"),
        (None, Some(_)) => return wrong("a trace was given, but the cell has no `replay`"),
    }
    Ok(tasks)
}

/// The filesystem's journal, on the stack `top` or on its own device.
fn new_journal(cell: &Cell, top: &Child, device: Option<Child>, kernel: Kernel) -> Result<Task, SimError> {
    let Some(filesystem) = &cell.filesystem else {
        return Err(SimError::Stack("the cell has a `journal`, but no `filesystem`".into()));
    };
    let mut journal = Journal::new(filesystem.commit_ns, top.limits.sectors);
    if let Some(spec) = &cell.journal {
        journal.syncing = Some(Syncing::new(spec.log, top.limits.chunk, device.is_some(), kernel));
    }
    if let Some(device) = device {
        journal.move_to(device.target, device.limits.sectors);
    }
    Ok(Task::new(Role::Journal(Box::new(journal)), 0))
}

/// The dirty pages of a host; `task` is the flusher.
fn new_writeback(cell: &Cell, task: u32) -> Writeback {
    // 20 and 10 % (`vm_dirty_ratio`, `dirty_background_ratio`) of a host with 16 GiB.
    const MEMORY: u64 = 16 << 30;
    let limit = cell.dirty_bytes.unwrap_or(MEMORY / 5);
    let background = cell.dirty_background_bytes.unwrap_or(limit / 2);
    Writeback::new(task, limit, background)
}

/// The file of a job that reads through the page cache.
fn new_reader(cell: &Cell, job: &load::Job, top: &Limits, kernel: Kernel) -> FileReader {
    // Twice the optimal size, at least 128 KiB (block/blk-settings.c, `disk_update_readahead`; before 5.10 in each level).
    let default = (2 * top.io_opt * 512).max(128 << 10);
    let mut window = cell.read_ahead_bytes.unwrap_or(default) / PAGE;
    if job.fadvise_sequential {
        window *= 2; // mm/fadvise.c, `POSIX_FADV_SEQUENTIAL`
    }
    let largest_request = cell.devices.iter().map(|device| u64::from(device.queue.max_bytes) / PAGE).min();
    let at_once = if kernel.reads_beyond_window() { largest_request.unwrap_or(0) } else { 0 };
    let boundary = if kernel.drivers_split_bios() { 0 } else { top.chunk };
    FileReader::new(job.size, [window, at_once], boundary)
}

fn check_job(job: &load::Job, sectors: u64, kernel: Kernel) -> Result<(), SimError> {
    let wrong = |why: String| Err(SimError::Job(job.name.clone(), why));
    let last = u64::from(job.numjobs.max(1) - 1);
    let end = job.offset_increment.checked_mul(last).and_then(|o| o.checked_add(job.offset)?.checked_add(job.size));
    if end.is_none_or(|end| end > sectors * 512) {
        let end = end.map_or("beyond 16 EiB".into(), |e| e.to_string());
        return wrong(format!("the region ends at byte {end}, but the stack at byte {}", sectors * 512));
    }
    let misfits =
        |&(bytes, weight): &(u32, f64)| bytes == 0 || !bytes.is_multiple_of(512) || weight.is_nan() || weight < 0.0;
    let no_size = job.read_sizes.is_empty() || job.write_sizes.is_empty();
    let odd_size = job.read_sizes.iter().chain(&job.write_sizes).any(misfits);
    let odd_block = job.iodepth == 0 || job.size < 512 || !job.align.is_multiple_of(512);
    let is_mixed = job.read_share > 0.0 && job.read_share < 1.0;
    let has_flushes = job.fsync > 0 || job.fsync_share > 0.0 || job.fua;
    let odd_buffered = job.buffered && (job.random || is_mixed || has_flushes || job.iodepth != 1);
    let rules = [
        (no_size, "read_sizes and write_sizes must each have at least one size"),
        (odd_size, "read_sizes and write_sizes must be multiples of 512 bytes, with weights of 0 or more"),
        (odd_block, "iodepth must be at least 1, size at least 512, blocks aligned to 512 bytes"),
        (job.io_uring && !kernel.has_io_uring(), "io_uring: expected Linux 5.1 or newer"),
        (!(0.0..=1.0).contains(&job.read_share), "read_share must be between 0 and 1"),
        (odd_buffered, "buffered: expected sequential reads or writes with an iodepth of 1, without flushes"),
    ];
    rules.into_iter().find(|&(is_broken, _)| is_broken).map_or(Ok(()), |(_, why)| wrong(why.into()))
}
