//! md: where an array's sectors lie on its members, which member serves a read, and what a write costs.
//!
//! A new level needs one file in [`level`] and one line in its registry; if its layout needs more than a few lines,
//! also a pure map in [`map`].

mod admission;
mod balance;
mod barrier;
mod bitmap;
mod level;
mod member;
mod parity;
mod report;
mod spec;
mod stripes;
mod sync;

use crate::bio::{Bio, NONE, Op, Owner};
use crate::engine::{Child, Limits, Mapped, Simulation, Target, WorkerNext};
use crate::events::Time;
use crate::kernel::Kernel;
use crate::targets::{BuildContext, Node, Reported, TargetSpec};
use admission::Admission;
use barrier::Barrier;
use bitmap::Bitmap;
use blklab_md::map::MemberSector;
use level::{Personality, Redundancy};
use member::{MemberSlot, Members};
use stripes::StripeCache;
use sync::RunningSync;

pub use blklab_md::Level;
pub use report::{MdReport, SlotStats};
pub use spec::{Md, Member, SyncAction};

/// The largest number of members: their slots are kept in a byte.
const MOST_MEMBERS: usize = 255;

/// The array's workers.
mod worker {
    /// `raid5d`, which handles rows of the stripe cache.
    pub const THREAD: u32 = 0;
    /// Writes the bitmap.
    pub const BITMAP: u32 = 1;
    /// `md_do_sync`.
    pub const SYNC: u32 = 2;
}

/// The purpose of a bio that the array owns itself; bios for members have their slot here.
mod tag {
    /// I/O of a row of the stripe cache: the number is its entry.
    pub const ROW: u8 = 0;
    /// I/O of a piece of a sync: the number is the piece's.
    pub const SYNC: u8 = 1;
}

/// The array's private data of a bio.
mod bio_state {
    /// The barrier and the bitmap have counted it.
    pub const COUNTED: u32 = 1;
    /// The running sync has counted it.
    pub const SEEN_BY_SYNC: u32 = 2;
}

/// An md array in a running simulation.
pub struct Array {
    members: Members,
    level: Box<dyn Personality>,
    limits: Limits,
    may_hold_bios: bool, // Whether bios can be held back before they are mapped
    thread: u32,         // The tasks of the workers
    bitmap: Option<Box<Bitmap>>,
    sync: Option<Box<RunningSync>>, // The running sync, and the barrier between it and other bios
    barrier: Option<Barrier>,
}

impl Target for Array {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn start(&mut self, new_worker: &mut dyn FnMut(u32) -> u32) {
        if self.stripes().is_some() {
            self.thread = new_worker(worker::THREAD);
        }
        if let Some(bitmap) = &mut self.bitmap {
            bitmap.task = new_worker(worker::BITMAP);
        }
        if let Some(sync) = &mut self.sync {
            sync.task = new_worker(worker::SYNC);
        }
    }

    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped {
        if let Some(sync) = &mut self.sync {
            sync.count_begin(&mut sim.bios[number]);
        }
        if self.may_hold_bios {
            let admission = self.admit(sim, task, number);
            self.wake_sync_at_barrier(sim);
            match admission {
                Admission::Pass => {}
                Admission::Taken => return Mapped::Taken,
                Admission::Done => {
                    self.end_bio(sim, number);
                    return Mapped::Taken;
                }
                Admission::Wait => return Mapped::Wait,
            }
        }
        let bio = sim.bios[number];
        match bio.op {
            Op::Flush => self.members.submit_to_all(sim, task, number, 0),
            _ => self.level.map(&mut self.members, sim, task, number, &bio),
        }
        if sim.bios[number].remaining == 0 {
            self.end_bio(sim, number);
        }
        Mapped::Taken
    }

    #[inline]
    fn end_io(&mut self, sim: &mut Simulation, part: &Bio) {
        let Owner::Target { tag: slot, number: parent, .. } = part.owner else { unreachable!("{part:?}") };
        if parent == NONE {
            return self.end_bitmap_io(sim);
        }
        self.members.end_part(slot, part);
        if sim.count_part(parent, part) {
            self.end_bio(sim, parent);
        }
    }

    fn work(&mut self, sim: &mut Simulation, task: u32, worker: u32) -> WorkerNext {
        match worker {
            worker::THREAD => self.handle_row(sim, task),
            worker::BITMAP => self.write_bitmap(sim, task),
            _ => self.sync_step(sim, task),
        }
    }

    /// The plug of a row of the stripe cache ends, or that of writes that wait for the bitmap.
    fn unplug(&mut self, sim: &mut Simulation, token: u32) {
        if token == admission::HELD_FOR_BITMAP {
            self.request_bitmap_write(sim);
        } else if self.stripes().is_some_and(|stripes| stripes.unplug_row(token)) {
            sim.wake_worker(self.thread);
        }
    }

    #[cfg(test)]
    fn assert_idle(&self) {
        assert!(self.members.slots.iter().all(|slot| slot.pending == 0));
        assert!(self.sync.is_none() && self.barrier.is_none(), "the sync waits for ever");
        self.level.assert_idle();
        if let Some(bitmap) = &self.bitmap {
            bitmap.assert_idle();
        }
    }
}

impl Array {
    /// The stripe cache, if there is one.
    fn stripes(&mut self) -> Option<&mut StripeCache> {
        match self.level.redundancy() {
            Redundancy::Parity(stripes) => Some(stripes),
            _ => None,
        }
    }

    /// Ends a bio for the array, or one that the array owns.
    #[inline]
    fn end_bio(&mut self, sim: &mut Simulation, number: u32) {
        let bio = &sim.bios[number];
        if let Owner::Target { target, tag, number: own_number } = bio.owner
            && target == self.members.id
        {
            sim.bios.remove(number);
            return self.end_own_bio(sim, tag, own_number);
        }
        if bio.private & bio_state::COUNTED != 0 {
            let bio = *bio;
            self.leave(sim, &bio);
        }
        if let Some(sync) = &mut self.sync {
            sync.count_end(&sim.bios[number]);
        }
        sim.complete(number);
    }

    fn end_own_bio(&mut self, sim: &mut Simulation, tag: u8, own_number: u32) {
        if tag == tag::ROW {
            if self.stripes().is_some_and(|stripes| stripes.end_row_io(own_number)) {
                sim.wake_worker(self.thread);
            }
        } else {
            self.end_sync_io(own_number);
            self.wake_sync(sim);
        }
    }

    /// The array's thread handles one row, or sleeps (`raid5d`). Its plug stays until no row is left.
    fn handle_row(&mut self, sim: &mut Simulation, task: u32) -> WorkerNext {
        let Some(stripes) = self.stripes() else { return WorkerNext::Sleep };
        let Some(entry) = stripes.pop_row() else { return WorkerNext::Sleep };
        let mut handled = stripes.handle_stripe(entry, &mut sim.bios);
        let synced_rows = std::mem::take(&mut stripes.synced_rows);
        let pages = handled.issue.map_or(0, |issue| issue.slots.count_ones());
        if let Some(issue) = handled.issue {
            self.submit_row_io(sim, task, entry, issue);
        }
        handled.woken.wake_all(sim);
        if synced_rows > 0 {
            self.end_synced_rows(synced_rows);
            self.wake_sync(sim);
        }
        for bio in handled.done {
            self.end_bio(sim, bio);
        }
        // An estimate: each page costs as much as a bio through two arrays, parity included. One thread then does
        // about 150,000 small writes per second, and 2 to 3 GB/s of full stripes.
        let after = sim.host.md_ns * (1 + 2 * u64::from(pages));
        WorkerNext::Again { after, plug: crate::engine::PlugAfter::EndsIfFull, undisturbed: false }
    }

    /// Submits a row's I/O.
    fn submit_row_io(&mut self, sim: &mut Simulation, task: u32, entry: u32, issue: stripes::MemberIo) {
        let parent = self.add_own_bio(sim, task, issue.op, stripes::ROW_SECTORS as u32, tag::ROW, entry);
        let syncing = self.stripes().is_some_and(|stripes| stripes.is_syncing(entry));
        let mut slots = issue.slots;
        while slots != 0 {
            let slot = slots.trailing_zeros();
            slots &= slots - 1;
            self.members.slots[slot as usize].synced += if syncing { stripes::ROW_SECTORS } else { 0 };
            let stats = &mut self.members.report.slots[slot as usize];
            *(if issue.op == Op::Read { &mut stats.only } else { &mut stats.writes }) += 1;
            let place = MemberSector { slot, sector: issue.sector };
            self.members.submit_part(sim, task, parent, place, stripes::ROW_SECTORS as u32);
        }
    }

    /// Adds a bio that the array owns itself, whose parts go to members.
    fn add_own_bio(&self, sim: &mut Simulation, task: u32, op: Op, sectors: u32, tag: u8, number: u32) -> u32 {
        let target = self.members.id;
        let (flags, owner) = (crate::bio::Flags::SYNC, Owner::Target { target, tag, number });
        sim.bios.add(Bio { target, op, flags, sector: 0, sectors, owner, task, remaining: 0, private: 0, next: NONE })
    }
}

impl Reported for Array {
    type Report = MdReport;

    fn report(&self) -> MdReport {
        self.members.report.clone()
    }
}

impl TargetSpec for Md {
    type Target = Array;

    fn children(&self) -> Vec<Option<&Node>> {
        self.members.iter().map(|member| member.node.as_ref()).collect()
    }

    fn build(&self, id: u16, children: &[Option<Child>], context: &BuildContext) -> Result<Array, String> {
        let array = Array::new(self, id, children, context);
        array.map_err(|why| format!("{}: {why}", self.name))
    }
}

impl Array {
    fn new(md: &Md, id: u16, children: &[Option<Child>], context: &BuildContext) -> Result<Self, String> {
        let kernel = context.kernel;
        let smallest = children.iter().flatten().map(|child| child.limits.sectors).min();
        let smallest = smallest.ok_or("no members: expected at least one")?;
        if children.len() > MOST_MEMBERS {
            return Err(format!("{} members: expected at most {MOST_MEMBERS}", children.len()));
        }
        let config = level::LevelConfig { md, level: md.level, children, smallest, kernel };
        let mut level = level::build(&config)?;
        let members = Self::new_members(md, id, children, context, &mut *level);
        let (sync, barrier) = Self::new_sync(md, &mut *level, kernel);
        let redundant = !matches!(level.redundancy(), Redundancy::None);
        let bitmap = if redundant { Bitmap::for_array(md)? } else { None };
        let lost: Vec<u32> = (0..).zip(&members.slots).filter(|(_, s)| !s.has_data()).map(|(n, _)| n).collect();
        config.map()?.check_lost(&lost)?;
        let limits = Self::stack_limits(&*level, children, context.host.md_ns);
        let mut array = Self { members, level, limits, may_hold_bios: false, thread: NONE, bitmap, sync, barrier };
        array.may_hold_bios = array.can_hold_bios();
        // With a filesystem, the heads are anywhere: it was created and mounted, and its file was written.
        if !context.filesystem && md.level == Level::Raid1 {
            array.read_partition_table();
        }
        Ok(array)
    }

    fn new_members(
        md: &Md, id: u16, children: &[Option<Child>], context: &BuildContext, level: &mut dyn Personality,
    ) -> Members {
        let slots = children.iter().zip(&md.members).map(|(child, member)| MemberSlot {
            target: child.map_or(0, |child| child.target),
            present: child.is_some(),
            readable: child.is_some() && !member.rebuilding,
            write_mostly: member.write_mostly,
            rotational: child.is_none_or(|child| child.limits.rotational),
            optimal: child.map_or(0, |child| child.limits.io_opt),
            pending: 0,
            head: 0,
            moved: 0,
            synced: 0,
            next_seq: u64::MAX,
            seq_start: u64::MAX,
        });
        Members {
            id,
            kernel: context.kernel,
            slots: slots.collect(),
            synced: if md.sync == SyncAction::Resync { 0 } else { u64::MAX },
            keeps_flags: match level.redundancy() {
                Redundancy::None => true,
                Redundancy::Copies(_) => context.kernel.mirrors_keep_flags(),
                Redundancy::Parity(_) => false,
            },
            report: MdReport {
                name: md.name.clone(),
                slots: vec![SlotStats::default(); children.len()],
                ..MdReport::default()
            },
        }
    }

    /// The sync that runs with the load, if one is configured and the level can sync.
    fn new_sync(md: &Md, level: &mut dyn Personality, kernel: Kernel) -> (Option<Box<RunningSync>>, Option<Barrier>) {
        if md.sync == SyncAction::Idle {
            return (None, None);
        }
        let (end, barrier) = match level.redundancy() {
            Redundancy::None => return (None, None),
            Redundancy::Copies(mirror) => (mirror.sync_end(md.sync), Some(mirror.new_barrier())),
            Redundancy::Parity(stripes) => (stripes.map.used, None),
        };
        let unit = if barrier.is_some() { sync::BLOCK } else { stripes::ROW_SECTORS };
        let allowance = kernel.resync_yields().then_some(sync::YIELDING_DEPTH * unit);
        (Some(Box::new(RunningSync::new(md, end, allowance))), barrier)
    }

    fn stack_limits(level: &dyn Personality, children: &[Option<Child>], md_ns: Time) -> Limits {
        let limits = || children.iter().flatten().map(|child| child.limits);
        Limits {
            sectors: level.sectors(),
            // A stacked queue is non-rotational only if every member is (`blk_stack_limits`, `md_run`).
            rotational: limits().any(|limits| limits.rotational),
            io_opt: level.io_opt(),
            cpu_ns: md_ns + limits().map(|limits| limits.cpu_ns).max().unwrap_or(0),
        }
    }

    /// Sets the heads as after the kernel's look for partitions when the array was first opened. Its first page was
    /// read, so a RAID-1's first member has moved on, and a stream from sector 0 finds the next member's head there
    /// (block/partitions/core.c, `read_balance` of raid1.c). RAID-10 needs no such state: of idle copies it takes the
    /// first or the lowest.
    fn read_partition_table(&mut self) {
        let page = self.limits.sectors.min(8) as u32;
        let Members { kernel, slots, synced, .. } = &mut self.members;
        let (slot, _) = balance::read_balance_raid1(*kernel, slots, 0, page, *synced == 0);
        slots[slot].head = u64::from(page);
    }
}
