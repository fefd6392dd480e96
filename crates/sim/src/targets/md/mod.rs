//! md: where an array's sectors lie on its members, which member serves a read, and what a write costs.
//!
//! A new level needs one type in [`level`] and one line in its registry; if its layout needs more than a few lines,
//! also a pure map in [`map`].

mod admission;
mod balance;
mod bitmap;
mod level;
mod member;
mod parity;
mod report;
mod spec;
mod stripes;
mod sync;
#[cfg(test)]
mod tests;

use crate::bio::{Bio, NONE, Op, Owner};
use crate::engine::{Child, Limits, Mapped, PlugAfter, Simulation, Target, WorkerNext};
use crate::events::Time;
use crate::kernel::{ArrayFlush, Kernel};
use crate::load::Host;
use crate::targets::locks::{Locks, Moment};
use crate::targets::{BuildContext, Built, Node, TargetSpec};
use admission::{Admission, Barrier, Safemode};
use bitmap::Bitmap;
use blklab_md::map::{ArrayMap, MemberSector};
use level::{LevelConfig, Personality, Redundancy};
use member::{MemberSlot, Members};
use parity::{ParityMethod, parity_time};
use stripes::StripeCache;
use sync::RunningSync;

pub use blklab_md::Level;
pub use report::{MdReport, SlotStats};
pub use spec::{Md, Member, SyncAction};

/// The largest number of members: their slots are kept in a byte.
const MOST_MEMBERS: usize = 255;

/// The array's workers.
mod worker {
    /// Writes the bitmap.
    pub const BITMAP: u32 = 0;
    /// `md_do_sync`.
    pub const SYNC: u32 = 1;
    /// `submit_flushes`.
    pub const FLUSH: u32 = 2;
    /// Writes superblocks (`md_update_sb`).
    pub const SUPERBLOCK: u32 = 3;
    /// `raid5d`, which handles rows of the stripe cache, and behind it the workers of `group_thread_cnt`.
    pub const THREAD: u32 = 4;
}

/// The purpose of a bio that the array owns itself; bios for members have their slot here.
mod tag {
    /// I/O of a row of the stripe cache: the number is its entry.
    pub const ROW: u8 = 0;
    /// I/O of a piece of a sync: the number is the piece's.
    pub const SYNC: u8 = 1;
    /// A write or a flush for the bitmap, and the same for superblocks.
    pub const BITMAP: u8 = 0;
    pub const SUPERBLOCK: u8 = 1;
}

/// The array's private data of a bio.
mod bio_state {
    /// The barrier and the bitmap have counted it.
    pub const COUNTED: u32 = 1;
    /// A read is served by rows of the stripe cache.
    pub const BY_ROWS: u32 = 4;
    /// The running sync has counted it.
    pub const SEEN_BY_SYNC: u32 = 2;
    /// It counts as one of the writes in flight.
    pub const WRITES: u32 = 8;
}

/// `MAX_STRIPE_BATCH`: rows that a thread takes at once.
const BATCH: usize = 8;
/// How much longer `device_lock` is held for each row of a batch, which is moved between lists.
const LIST_NS: Time = 100;

/// The moments of reads, of writes, and of their pages: when a bio is mapped, and when it ends.
const MAPPED: [Moment; 3] = [Moment::Read, Moment::Write, Moment::Page];
const ENDED: [Moment; 3] = [Moment::ReadEnd, Moment::WriteEnd, Moment::PageEnd];

/// A thread that handles rows of the stripe cache.
#[derive(Clone, Default)]
struct Handler {
    task: u32,
    rows: usize, // Rows of its batch that are left
    busy: Time,  // How long it has handled rows
}

/// Flushes of the array, if they do not pass it at once.
#[derive(Default)]
struct Flushes {
    task: u32,
    alone: bool,       // Whether each flush serves only one bio
    is_made: bool,     // Whether the bios of the next flush are made, which takes the worker some time
    running: Vec<u32>, // The bios that the running flush serves
    waiting: Vec<u32>,
}

/// An md array in a running simulation.
pub struct Array {
    members: Members,
    level: Box<dyn Personality>,
    fast: bool,            // Whether processors can be its limit
    may_hold: [bool; 2],   // Whether reads, and other bios, can be held back before they are mapped
    largest_bio: u64,      // Sectors from which on a bio is split
    threads: Vec<Handler>, // What handles rows of the stripe cache: `raid5d`, and the group's workers
    locks: Locks,
    flushes: Option<Flushes>,
    bitmap: Option<Box<Bitmap>>,
    safemode: Option<Safemode>,
    sync: Option<Box<RunningSync>>, // The running sync, and the barrier between it and other bios
    barrier: Option<Barrier>,
}

impl Target for Array {
    fn start(&mut self, new_worker: &mut dyn FnMut(u32) -> u32) {
        for (number, thread) in (worker::THREAD..).zip(&mut self.threads) {
            thread.task = new_worker(number);
        }
        self.bitmap.iter_mut().for_each(|bitmap| bitmap.task = new_worker(worker::BITMAP));
        self.flushes.iter_mut().for_each(|flushes| flushes.task = new_worker(worker::FLUSH));
        self.safemode.iter_mut().for_each(|safemode| safemode.task = new_worker(worker::SUPERBLOCK));
        self.sync.iter_mut().for_each(|sync| sync.task = new_worker(worker::SYNC));
    }

    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped {
        let Bio { op, sector, sectors, .. } = sim.bios[number];
        if u64::from(sectors) > self.largest_bio && matches!(op, Op::Read | Op::Write) {
            let (largest, end) = (self.largest_bio, sector + u64::from(sectors));
            for piece in (sector..end).step_by(largest as usize) {
                sim.split(task, number, piece, largest.min(end - piece) as u32);
            }
            return Mapped::Taken;
        }
        if let Some(sync) = &mut self.sync {
            let private = &mut sim.bios[number].private;
            sync.other_bios += u32::from(*private & bio_state::SEEN_BY_SYNC == 0);
            *private |= bio_state::SEEN_BY_SYNC;
        }
        if self.may_hold[usize::from(op != Op::Read)] {
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
        if bio.op == Op::Flush
            && let Some(flushes) = &mut self.flushes
        {
            flushes.waiting.push(number);
            sim.wake_worker(flushes.task);
            return Mapped::Taken;
        }
        match bio.op {
            Op::Flush => self.members.submit_to_all(sim, task, number, 0),
            _ => self.level.map(&mut self.members, sim, task, number, &bio),
        }
        let parts = Time::from(sim.bios[number].remaining);
        if parts > 1 && self.fast {
            let part_ns = if bio.op == Op::Flush { flush_part_ns(&sim.host) } else { sim.host.member_ns };
            sim.spend(task, (parts - 1) * part_ns);
        }
        self.take_locks(sim, task, (bio.op, bio.sectors), MAPPED);
        if parts == 0 {
            self.end_bio(sim, number);
        }
        Mapped::Taken
    }

    #[inline]
    fn end_io(&mut self, sim: &mut Simulation, part: &Bio) {
        let Owner::Target { tag: slot, number: parent, .. } = part.owner else { unreachable!("{part:?}") };
        if parent == NONE {
            return if slot == tag::BITMAP { self.end_bitmap_io(sim) } else { self.end_superblock_io(sim) };
        }
        self.members.end_part(slot, part);
        if sim.count_part(parent, part) {
            self.end_bio(sim, parent);
        }
    }

    fn work(&mut self, sim: &mut Simulation, task: u32, worker: u32) -> WorkerNext {
        match worker {
            worker::BITMAP => self.write_bitmap(sim, task),
            worker::SYNC => self.sync_step(sim, task),
            worker::FLUSH => self.start_flush(sim, task),
            worker::SUPERBLOCK => self.update_superblock(sim, task),
            _ => self.handle_row(sim, (worker - worker::THREAD) as usize),
        }
    }

    /// The members have read what they need for a short page of the bitmap.
    fn timer(&mut self, sim: &mut Simulation, _timer: u32) {
        self.end_bitmap_io(sim);
    }

    /// The plug of a row of the stripe cache ends, or that of writes that wait for the bitmap.
    fn unplug(&mut self, sim: &mut Simulation, token: u32) {
        if token == admission::HELD_FOR_BITMAP {
            self.request_bitmap_write(sim);
        } else if self.stripes().is_some_and(|stripes| stripes.unplug_row(token)) {
            self.wake_threads(sim);
        }
    }
}

impl Array {
    /// The stripe cache, if there is one.
    fn stripes(&mut self) -> Option<&mut StripeCache> {
        if let Redundancy::Parity(stripes) = self.level.redundancy() { Some(stripes) } else { None }
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
        let Bio { op, sectors, task, private, .. } = *bio;
        if op != Op::Read || private & bio_state::BY_ROWS == 0 {
            self.take_locks(sim, task, (op, sectors), ENDED);
        }
        if private & bio_state::WRITES != 0 {
            self.end_write(sim);
        }
        if private & bio_state::COUNTED != 0 {
            let bio = sim.bios[number];
            self.leave(sim, &bio);
        }
        if let Some(sync) = &mut self.sync {
            sync.other_bios -= u32::from(private & bio_state::SEEN_BY_SYNC != 0);
        }
        sim.complete(number);
        if op == Op::Flush {
            self.end_flush(sim, number);
        }
    }

    /// Flushes the members for the bios that wait, if no flush is running (`md_flush_request`).
    fn start_flush(&mut self, sim: &mut Simulation, task: u32) -> WorkerNext {
        if let Some(flushes) = &mut self.flushes
            && flushes.running.is_empty()
            && !flushes.waiting.is_empty()
        {
            if self.fast && !flushes.is_made {
                flushes.is_made = true;
                let after = self.members.slots.len() as Time * flush_part_ns(&sim.host);
                return WorkerNext::Again { after, plug: PlugAfter::Ends, undisturbed: true };
            }
            flushes.is_made = false;
            let served = if flushes.alone { 1 } else { flushes.waiting.len() };
            flushes.running.extend(flushes.waiting.drain(..served));
            self.members.submit_to_all(sim, task, flushes.running[0], 0);
        }
        WorkerNext::Sleep
    }

    /// The flush of a bio is done: the others that it serves are done too, and the next can begin.
    fn end_flush(&mut self, sim: &mut Simulation, number: u32) {
        let Some(flushes) = &mut self.flushes else { return };
        if flushes.running.first() != Some(&number) {
            return;
        }
        let served = std::mem::take(&mut flushes.running);
        if !flushes.waiting.is_empty() {
            sim.wake_worker(flushes.task);
        }
        served[1..].iter().for_each(|&bio| self.end_bio(sim, bio));
    }

    fn end_own_bio(&mut self, sim: &mut Simulation, tag: u8, own_number: u32) {
        if tag == tag::ROW {
            self.stripes().expect("rows have a cache").end_row_io(own_number);
            self.wake_threads(sim);
        } else {
            self.end_sync_io(own_number);
            self.wake_sync(sim);
        }
    }

    /// Takes the locks of a bio that is mapped or ends: the moments of reads, of writes, and of their pages.
    #[inline]
    fn take_locks(
        &mut self, sim: &mut Simulation, task: u32, (op, sectors): (Op, u32), [read, write, page]: [Moment; 3],
    ) {
        match op {
            Op::Read => self.locks.take(sim, task, read, 1, 0),
            Op::Write => {
                self.locks.take(sim, task, write, 1, 0);
                self.locks.take(sim, task, page, Time::from(sectors).div_ceil(stripes::ROW_SECTORS), 0);
            }
            _ => {}
        }
    }

    /// Wakes the threads that handle rows: `raid5d` and one worker at once, another for every further batch
    /// (`raid5_wakeup_stripe_thread`).
    fn wake_threads(&mut self, sim: &mut Simulation) {
        let batches = self.stripes().map_or(0, |stripes| stripes.queue.len()) / BATCH;
        self.threads.iter().take((1 + batches).max(2)).for_each(|thread| sim.wake_worker(thread.task));
    }

    /// A thread handles one row, or sleeps (`raid5d`, `raid5_do_work`). Its plug stays until no row is left.
    fn handle_row(&mut self, sim: &mut Simulation, thread: usize) -> WorkerNext {
        // What its last step spent beyond its price: on requests of SCSI disks, and on locks.
        let Handler { task, busy, .. } = &mut self.threads[thread];
        *busy += std::mem::take(&mut sim.tasks[*task as usize].spent);
        if thread == 0 && self.threads[0].rows == 0 && self.writes_bitmap_first(sim) {
            return WorkerNext::Sleep;
        }
        let Redundancy::Parity(stripes) = self.level.redundancy() else { return WorkerNext::Sleep };
        let Handler { task, rows, .. } = &mut self.threads[thread];
        let task = *task;
        if *rows == 0 {
            *rows = stripes.queue.len().min(BATCH);
            self.locks.take(sim, task, Moment::Batch, 1, LIST_NS * *rows as Time);
        }
        let Some(entry) = stripes.pop_row() else {
            *rows = 0;
            return WorkerNext::Sleep;
        };
        *rows = rows.saturating_sub(1);
        let issue = stripes.handle_stripe(entry, &mut sim.bios);
        let synced_rows = std::mem::take(&mut stripes.synced_rows);
        let after = row_time(&sim.host, stripes.map.disks(), stripes.map.data(), issue.as_ref());
        self.threads[thread].busy += after;
        let (mut woken, mut done) = (std::mem::take(&mut stripes.woken), std::mem::take(&mut stripes.done));
        if let Some(issue) = issue {
            let syncing = stripes.is_syncing(entry);
            self.submit_row_io(sim, task, entry, issue, syncing);
        }
        woken.wake_all(sim);
        if synced_rows > 0 {
            self.end_synced_rows(synced_rows);
            self.wake_sync(sim);
        }
        for bio in done.drain(..) {
            sim.bios[bio].task = task;
            self.end_bio(sim, bio);
        }
        self.stripes().expect("rows have a cache").done = done;
        WorkerNext::Again { after, plug: crate::engine::PlugAfter::EndsIfFull, undisturbed: false }
    }

    /// Submits a row's I/O.
    fn submit_row_io(&mut self, sim: &mut Simulation, task: u32, entry: u32, issue: stripes::MemberIo, syncing: bool) {
        let parent = self.add_own_bio(sim, task, issue.op, stripes::ROW_SECTORS as u32, tag::ROW, entry);
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

/// What sending a flush to one more member costs: an empty bio takes less than one with data. Arrays of 1 and of 64 RAM
/// disks had 108,000 and 34,700 flushes a second, which is 0.31 µs for each. Nothing else judges it.
fn flush_part_ns(host: &Host) -> Time {
    host.member_ns * 3 / 10
}

/// What handling a row of this many members and data pages costs the thread. A write is two passes: its parity, then its bios. The members' bios end in
/// interrupts, so the thread submits them only: two thirds of their price.
fn row_time(host: &Host, disks: u32, data: u32, issue: Option<&stripes::MemberIo>) -> Time {
    let Some(issue) = issue else { return host.pass_ns };
    let slots = issue.slots.count_ones();
    let members = Time::from(slots) * host.member_ns * 2 / 3;
    let Some(method) = issue.method else { return host.pass_ns + members };
    let parities = disks - data;
    let written = slots.saturating_sub(parities).max(1);
    let pages = if method == ParityMethod::Modify { written } else { data };
    let copies = Time::from(written) * host.copy_ns;
    2 * host.pass_ns + members + copies + parity_time(host, parities, method, pages)
}

impl TargetSpec for Md {
    type Target = Array;
    type Report = MdReport;

    fn children(&self) -> Vec<Option<&Node>> {
        self.members.iter().map(|member| member.node.as_ref()).collect()
    }

    fn build(&self, id: u16, children: &[Option<Child>], context: &BuildContext) -> Built<Array> {
        let array = Array::new(self, id, children, context);
        array.map_err(|why| format!("{}: {why}", self.name))
    }

    fn report(target: &Array) -> MdReport {
        let thread_ns = target.threads.iter().map(|thread| thread.busy).max().unwrap_or(0);
        MdReport { locks: target.locks.usage(), thread_ns, ..target.members.report.clone() }
    }
}

impl Array {
    fn new(md: &Md, id: u16, children: &[Option<Child>], context: &BuildContext) -> Built<Self> {
        let kernel = context.kernel;
        let smallest = children.iter().flatten().map(|child| child.limits.sectors).min();
        let smallest = smallest.ok_or("no members: expected at least one")?;
        if children.len() > MOST_MEMBERS {
            return Err(format!("{} members: expected at most {MOST_MEMBERS}", children.len()));
        }
        let config = LevelConfig { md, level: md.level, children, smallest, kernel };
        let mut level = level::build(&config)?;
        let members = Self::new_members(md, id, children, context, &mut *level);
        let (sync, barrier) = Self::new_sync(md, &mut *level, kernel);
        let redundant = !matches!(level.redundancy(), Redundancy::None);
        let synced = match level.redundancy() {
            Redundancy::None => 0,
            Redundancy::Copies(mirror) => mirror.sync_end(SyncAction::Resync),
            Redundancy::Parity(stripes) => stripes.map.used,
        };
        let short_write_ns = children.iter().flatten().map(|child| child.limits.short_write_ns).max().unwrap_or(0);
        let bitmap = if redundant { Bitmap::for_array(md, synced, context, short_write_ns)? } else { None };
        let lost: Vec<u32> = (0..).zip(&members.slots).filter(|(_, s)| !s.readable).map(|(n, _)| n).collect();
        let map = config.map()?;
        map.check_lost(&lost)?;
        let limits = Self::stack_limits(&config, &map, context);
        let locks = if limits.fast { Self::new_locks(md, context) } else { Locks::default() };
        let (largest_bio, handlers) = match level.redundancy() {
            Redundancy::Parity(_) => (kernel.largest_parity_bio(limits.io_opt), 1 + md.group_thread_cnt as usize),
            _ => (u64::MAX, 0),
        };
        let flushes = match kernel.array_flush() {
            ArrayFlush::AtOnce => None,
            how => Some(Flushes { alone: how == ArrayFlush::OneByOne, ..Flushes::default() }),
        };
        let safemode = redundant.then(Safemode::default);
        let mut array = Self {
            members,
            level,
            fast: limits.fast,
            may_hold: [true; 2],
            largest_bio,
            threads: vec![Handler::default(); handlers],
            locks,
            flushes,
            bitmap,
            safemode,
            sync,
            barrier,
        };
        array.may_hold = array.can_hold_bios();
        // With a filesystem, the heads are anywhere: it was created and mounted, and its file was written.
        // Otherwise they are as after the kernel's look for partitions when the array was first opened. Its first page
        // was read, so a RAID-1's first member has moved on, and a stream from sector 0 finds the next member's head
        // there (block/partitions/core.c, `read_balance` of raid1.c). RAID-10 needs no such state: of idle copies it
        // takes the first or the lowest.
        if !context.filesystem && md.level == Level::Raid1 {
            let page = limits.sectors.min(8) as u32;
            let Members { kernel, slots, synced, .. } = &mut array.members;
            let (slot, _) = balance::read_balance_raid1(*kernel, slots, 0, page, *synced == 0);
            slots[slot].head = u64::from(page);
        }
        Ok((array, limits))
    }

    fn new_locks(md: &Md, context: &BuildContext) -> Locks {
        let level = format!("{:?}", md.level).to_lowercase();
        let with_bitmap = (md.bitmap && !md.lockless).then(|| format!("{level} bitmap"));
        let kinds: Vec<String> = with_bitmap.into_iter().chain([level]).collect();
        Locks::new(&kinds, context, md.group_thread_cnt)
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
            next_seq: u64::MAX,
            seq_start: u64::MAX,
            ..MemberSlot::default()
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

    fn stack_limits(config: &LevelConfig, map: &ArrayMap, context: &BuildContext) -> Limits {
        let limits = || config.children.iter().flatten().map(|child| child.limits);
        let punts = !context.kernel.md_takes_nowait();
        Limits {
            sectors: map.capacity(),
            // A stacked queue is non-rotational only if every member is (`blk_stack_limits`, `md_run`).
            rotational: limits().any(|limits| limits.rotational),
            fast: limits().any(|limits| limits.fast),
            io_opt: config.io_opt(map),
            chunk: config.split_chunk(),
            punt_ns: if punts { 2 * context.host.switch_ns } else { 0 },
            short_write_ns: limits().map(|limits| limits.short_write_ns).max().unwrap_or(0),
            cpu_ns: context.host.md_ns + limits().map(|limits| limits.cpu_ns).max().unwrap_or(0),
        }
    }
}
