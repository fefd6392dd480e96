//! From a cell to a run that can begin; everything that cannot work is found here.

use super::{Node, World};
use crate::bio::Bios;
use crate::cell::{self, Cell};
use crate::error::SimError;
use crate::events::Events;
use crate::kernel::Kernel;
use crate::md::Array;
use crate::outcome::Gathering;
use crate::queue::Queue;
use crate::queue::request::Requests;
use crate::rng::Rng;
use crate::task::job::Job;
use crate::task::journal::Journal;
use crate::task::replay::{Replay, ReplayIos};
use crate::task::{Role, Task};

/// The name of a replay's group in results.
const REPLAY: &str = "replay";

/// Nodes as they are built: what each holds, and whether it rotates.
pub(crate) struct Builder<'a> {
    cell: &'a Cell,
    kernel: Kernel,
    nodes: Vec<Node>,
    used: Vec<bool>,
}

/// What an array must know of a member.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// Its node.
    pub node: u16,
    /// How much it holds.
    pub sectors: u64,
    /// What md sees in `queue/rotational`.
    pub rotational: bool,
    /// Arrays from here down.
    pub depth: u64,
    /// `queue/optimal_io_size` in sectors; disks name none.
    pub optimal: u64,
}

impl Builder<'_> {
    fn node(&mut self, node: &cell::Node) -> Result<Built, SimError> {
        match node {
            cell::Node::Device(index) => self.device(*index),
            cell::Node::Md(md) => self.array(md),
        }
    }

    fn device(&mut self, index: usize) -> Result<Built, SimError> {
        let device =
            self.cell.devices.get(index).ok_or_else(|| SimError::Stack(format!("no device {index}")))?;
        if std::mem::replace(&mut self.used[index], true) {
            return Err(SimError::Stack(format!("device {} is used twice", device.name)));
        }
        let node = self.next_node()?;
        self.nodes.push(Node::Disk(Box::new(Queue::new(device, node, self.kernel))));
        let sectors = device.bytes / 512;
        Ok(Built { node, sectors, rotational: device.queue.rotational, depth: 0, optimal: 0 })
    }

    fn array(&mut self, md: &cell::Md) -> Result<Built, SimError> {
        let members: Vec<Option<Built>> = md
            .members
            .iter()
            .map(|m| m.node.as_ref().map(|n| self.node(n)).transpose())
            .collect::<Result<_, _>>()?;
        let node = self.next_node()?;
        let mut array = Array::new(md, &members, node, self.kernel).map_err(SimError::Stack)?;
        // With a filesystem, heads are anywhere: it was made, mounted, and its file written.
        if self.cell.filesystem.is_none() {
            array.look_for_partitions();
        }
        let sectors = array.sectors;
        let present = || members.iter().flatten();
        let depth = 1 + present().map(|m| m.depth).max().unwrap_or(0);
        // A stacked queue is non-rotational only if every member is (`blk_stack_limits`, `md_run`).
        let rotational = present().any(|m| m.rotational);
        self.nodes.push(Node::Array(Box::new(array)));
        // A whole stripe of data (`blk_queue_io_opt` in raid0.c, raid10.c and raid5.c); mirrors have their members'.
        let (chunk, disks) = (md.chunk / 512, md.members.len() as u64);
        let optimal = match md.level {
            cell::Level::Raid0 => chunk * disks,
            cell::Level::Raid10 => chunk * disks / u64::from(md.near.max(1)),
            cell::Level::Raid4 | cell::Level::Raid5 => chunk * (disks - 1),
            cell::Level::Raid6 => chunk * (disks - 2),
            cell::Level::Raid1 | cell::Level::Linear => present().map(|m| m.optimal).max().unwrap_or(0),
        };
        Ok(Built { node, sectors, rotational, depth, optimal })
    }

    fn next_node(&self) -> Result<u16, SimError> {
        u16::try_from(self.nodes.len())
            .map_err(|_| SimError::Stack("more than 65,536 devices and arrays".into()))
    }
}

impl World {
    /// Builds a cell's stack and tasks; `trace` is what it replays.
    pub fn new(cell: &Cell, trace: Option<ReplayIos>) -> Result<Self, SimError> {
        let kernel = Kernel::parse(&cell.kernel)?;
        let mut builder = Builder { cell, kernel, nodes: Vec::new(), used: vec![false; cell.devices.len()] };
        let top = builder.node(&cell.stack)?;
        let mut tasks = Vec::new();
        for (group, spec) in cell.jobs.iter().enumerate() {
            check(spec, top.sectors)?;
            for index in 0..spec.numjobs {
                let job = Job::new(spec, index, cell.seed ^ (group as u64) << 32);
                tasks.push(Task::new(Role::Job(Box::new(job)), group));
            }
        }
        match (&cell.replay, trace) {
            (Some(spec), Some(ios)) => {
                let replay = Replay::new(spec, ios, top.sectors)?;
                tasks.push(Task::new(Role::Replay(Box::new(replay)), cell.jobs.len()));
            }
            (None, None) => {}
            (Some(_), None) => return Err(SimError::Replay("there is no trace to replay".into())),
            (None, Some(_)) => {
                return Err(SimError::Replay("the cell does not say how to replay a trace".into()));
            }
        }
        let running = tasks.len();
        let journal = cell.filesystem.as_ref().map(|filesystem| {
            tasks.push(Task::new(Role::Journal(Journal::new(filesystem.commit_ns, top.sectors)), 0));
            tasks.len() as u32 - 1
        });
        threads(&mut builder.nodes, &mut tasks);
        let names = cell.jobs.iter().map(|j| j.name.clone()).chain(cell.replay.iter().map(|_| REPLAY.into()));
        Ok(Self {
            now: 0,
            events: Events::default(),
            bios: Bios::default(),
            requests: Requests::default(),
            nodes: builder.nodes,
            top: top.node,
            tasks,
            ios: Vec::new(),
            free_ios: Vec::new(),
            host: cell.host.clone(),
            depth: top.depth,
            replays: cell.replay.is_some(),
            runtime: cell.runtime_ns.map_or(u64::MAX, |r| r.saturating_add(cell.ramp_ns)),
            max_ios: cell.max_ios.unwrap_or(u64::MAX),
            gathering: Gathering::new(names, cell.ramp_ns),
            journal,
            held: Vec::new(),
            woken: Vec::new(),
            running,
            disk_ios: 0,
            processor: 0,
            failure: None,
            rng: Rng::new(cell.seed),
        })
    }
}

/// The tasks of arrays: each for what it needs.
fn threads(nodes: &mut [Node], tasks: &mut Vec<Task>) {
    let mut task = |role| {
        tasks.push(Task::new(role, 0));
        tasks.len() as u32 - 1
    };
    for (node, array) in (0..).zip(nodes) {
        let Node::Array(array) = array else { continue };
        if array.has_parity() {
            array.thread = task(Role::Thread(node));
        }
        if let Some(bitmap) = &mut array.bitmap {
            bitmap.task = task(Role::Bitmap(node));
        }
        if let Some(sync) = &mut array.sync {
            sync.task = task(Role::Sync(node));
        }
    }
}

fn check(job: &cell::Job, sectors: u64) -> Result<(), SimError> {
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
