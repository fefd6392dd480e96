//! The members of an array, and how md submits bios to them.

use super::report::MdReport;
use crate::bio::{Bio, Flags, NONE, Op, Owner};
use crate::engine::Simulation;
use crate::kernel::Kernel;
use blklab_md::map::MemberSector;

/// A slot of an array: `struct raid1_info` and `struct md_rdev`.
#[derive(Clone, Debug, Default)]
pub struct MemberSlot {
    pub target: u16,        // The member's target
    pub present: bool,      // Whether there is a member
    pub readable: bool,     // Whether reads can use it: a member that is not being rebuilt
    pub write_mostly: bool, // Read only if no other member can be read
    pub rotational: bool,   // What md sees in `queue/rotational`
    pub optimal: u64,       // `queue/optimal_io_size` in sectors
    pub pending: u32,       // I/Os of any kind not yet completed (`nr_pending`)
    pub head: u64,          // The end of the last I/O completed, read or write (`head_position`)
    pub moved: u64,         // Sectors read and written
    pub synced: u64,        // Those of them that belong to a sync
    pub next_seq: u64,      // The sector behind the last read (`next_seq_sect`)
    pub seq_start: u64,     // Where the sequential run began (`seq_start`)
}

impl MemberSlot {
    /// The distance from the member's head.
    #[inline]
    pub fn distance(&self, sector: u64) -> u64 {
        self.head.abs_diff(sector)
    }

    /// Whether there is a member that is being rebuilt.
    pub fn is_rebuilding(&self) -> bool {
        self.present && !self.readable
    }
}

/// The members of an array.
pub struct Members {
    pub id: u16,                // The array's target
    pub kernel: Kernel,         // The kernel generation
    pub slots: Vec<MemberSlot>, // The members, by slot
    pub synced: u64, // Reads beyond this go to the first copy, because a resync has not passed yet (`recovery_cp`)
    /// Whether bios of members keep REQ_IDLE, so that writeback throttling lets direct writes pass: linear and RAID-0
    /// remap bios unchanged, the other levels clone them, and RAID-4, 5 and 6 write on their own account.
    pub keeps_flags: bool,
    pub report: MdReport, // The counters
}

impl Members {
    /// Submits a part of a bio to a member.
    #[inline(always)]
    pub fn submit_part(&mut self, sim: &mut Simulation, task: u32, parent: u32, place: MemberSector, sectors: u32) {
        let slot = &mut self.slots[place.slot as usize];
        slot.pending += 1;
        let bio = &mut sim.bios[parent];
        bio.remaining += 1;
        let owner = Owner::Target { target: self.id, tag: place.slot as u8, number: parent };
        let mut child = bio.clone_for(slot.target, place.sector, sectors, owner);
        if !self.keeps_flags {
            child.flags = child.flags.without(Flags::IDLE);
        }
        let child = sim.bios.add(child);
        sim.submit(task, child);
    }

    /// Submits a part of a write to a member, if there is one.
    #[inline]
    pub fn submit_write(&mut self, sim: &mut Simulation, task: u32, parent: u32, place: MemberSector, sectors: u32) {
        let slot = place.slot as usize;
        if self.slots[slot].present {
            self.report.slots[slot].writes += u64::from(sim.bios[parent].op == Op::Write);
            self.submit_part(sim, task, parent, place, sectors);
        }
    }

    /// Submits a part of a bio to the one member that has its sectors.
    #[inline]
    pub fn submit_single_copy(
        &mut self, sim: &mut Simulation, task: u32, parent: u32, place: MemberSector, sectors: u32,
    ) {
        if sim.bios[parent].op == Op::Read {
            self.report.slots[place.slot as usize].only += 1;
            self.submit_part(sim, task, parent, place, sectors);
        } else {
            self.submit_write(sim, task, parent, place, sectors);
        }
    }

    /// Submits all of a bio to every member: writes of a mirror, and flushes.
    pub fn submit_to_all(&mut self, sim: &mut Simulation, task: u32, parent: u32, sector: u64) {
        let sectors = sim.bios[parent].sectors;
        for slot in 0..self.slots.len() as u32 {
            self.submit_write(sim, task, parent, MemberSector { slot, sector }, sectors);
        }
    }

    /// Submits a write of metadata, or a flush, to every member, and returns how many. They are not parts of the array's
    /// bios, so they have no parent; `io` is the operation, the first sector, and how many.
    pub fn submit_metadata(
        &self, sim: &mut Simulation, task: u32, tag: u8, (op, sector, sectors): (Op, u64, u32),
    ) -> u32 {
        let owner = Owner::Target { target: self.id, tag, number: NONE };
        let durable = if op == Op::Write { Flags::FUA } else { Flags::default() };
        let flags = Flags::SYNC.with(Flags::METADATA).with(durable);
        let present = self.slots.iter().filter(|slot| slot.present);
        present.map(|slot| sim.submit_new(task, (op, slot.target, sector, sectors), flags, owner)).count() as u32
    }

    /// Counts a part that a member has done.
    #[inline]
    pub fn end_part(&mut self, slot: u8, part: &Bio) {
        let slot = &mut self.slots[slot as usize];
        slot.pending -= 1;
        slot.moved += u64::from(part.sectors);
        if part.op != Op::Flush {
            slot.head = part.end();
        }
    }

    /// Whether a member is missing or being rebuilt.
    pub fn are_degraded(&self) -> bool {
        self.slots.iter().any(|slot| !slot.readable)
    }
}
