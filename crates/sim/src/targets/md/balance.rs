//! Read balancing: which copy serves a read. Faithful to `read_balance` of drivers/md/raid1.c and raid10.c by kernel
//! generation, for it decides more than anything else how an array of unlike members performs.

use crate::kernel::Kernel;
use crate::targets::md::map::Place;
use crate::targets::md::member::Slot;

/// Why a copy was chosen: counted for `--explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// There was no other, or a resync forbade the others.
    Only,
    /// It continues where the member's last read or head is.
    Sequential,
    /// Fewest I/Os pending.
    Idlest,
    /// Nearest to the member's head.
    Nearest,
    /// Lowest address: far and offset layouts.
    Lowest,
}

/// RAID-1's choice among `slots` for a read of `sectors` at `sector`.
#[inline(always)]
pub fn raid1(
    kernel: Kernel,
    slots: &mut [Slot],
    sector: u64,
    sectors: u32,
    choose_first: bool,
) -> (usize, Reason) {
    let (best, reason) = raid1_choice(kernel, slots, sector, choose_first);
    let slot = &mut slots[best];
    if slot.next_seq != sector {
        slot.seq_start = sector;
    }
    slot.next_seq = sector + u64::from(sectors);
    (best, reason)
}

#[inline(always)]
fn raid1_choice(kernel: Kernel, slots: &[Slot], sector: u64, choose_first: bool) -> (usize, Reason) {
    let mut idlest = (u32::MAX, usize::MAX);
    let mut nearest = (u64::MAX, usize::MAX);
    let mut write_mostly = usize::MAX;
    let mut stay = usize::MAX;
    let (mut flash, mut candidates, mut move_on) = (false, 0, false);
    for (index, slot) in slots.iter().enumerate() {
        if !slot.readable {
            continue;
        }
        if slot.write_mostly {
            write_mostly = write_mostly.min(index);
            continue;
        }
        if choose_first {
            return (index, Reason::Only);
        }
        candidates += 1;
        flash |= !slot.rotational;
        let distance = slot.distance(sector);
        if slot.next_seq == sector || distance == 0 {
            if !leaves_run(slot) {
                return (index, Reason::Sequential);
            }
            if kernel.raid1_moves_long_runs() {
                // 6.9 on: the run goes on here only if no disk is idle.
                stay = if stay == usize::MAX { index } else { stay };
            } else {
                // Before, the later disks were not looked at any more, so the run stayed.
                (idlest, nearest, move_on) = ((slot.pending, index), (distance, index), true);
            }
            continue;
        }
        if !move_on {
            if slot.pending < idlest.0 {
                idlest = (slot.pending, index);
            }
            if distance < nearest.0 {
                nearest = (distance, index);
            }
        }
    }
    if stay != usize::MAX {
        let idle = idlest.1 != usize::MAX && idlest.0 == 0;
        return if idle { (idlest.1, Reason::Idlest) } else { (stay, Reason::Sequential) };
    }
    match candidates {
        0 => (if write_mostly == usize::MAX { 0 } else { write_mostly }, Reason::Only),
        1 => (idlest.1, Reason::Only),
        _ if (flash && kernel.raid1_prefers_idle()) || idlest.0 == 0 => (idlest.1, Reason::Idlest),
        _ => (nearest.1, Reason::Nearest),
    }
}

/// Whether a sequential run on flash has exceeded the optimal I/O size, so that an idle disk may go on with it.
fn leaves_run(slot: &Slot) -> bool {
    !slot.rotational
        && slot.optimal > 0
        && slot.seq_start != u64::MAX
        && slot.next_seq > slot.optimal
        && slot.next_seq - slot.optimal >= slot.seq_start
}

/// RAID-10's choice among the copies of a read, as an index of `copies`.
#[inline]
pub fn raid10(
    kernel: Kernel,
    slots: &[Slot],
    copies: &[Place],
    near: u32,
    far: u32,
    choose_first: bool,
) -> (usize, Reason) {
    let mut best = (u64::MAX, usize::MAX);
    let mut idlest = (u32::MAX, usize::MAX);
    let (mut candidates, mut nearest_is_idle) = (0, false);
    for (index, copy) in copies.iter().enumerate() {
        let slot = &slots[copy.slot as usize];
        if !slot.readable {
            continue;
        }
        if choose_first {
            return (index, Reason::Only);
        }
        candidates += 1;
        if kernel.raid10_prefers_idle() && !slot.rotational && slot.pending < idlest.0 {
            idlest = (slot.pending, index);
        }
        let idle = near > 1 && slot.pending == 0;
        let distance = match (idle, far > 1) {
            (true, _) => 0,
            (_, true) => copy.sector,
            _ => slot.distance(copy.sector),
        };
        if distance < best.0 {
            best = (distance, index);
            nearest_is_idle = idle;
        }
    }
    match candidates {
        0 => (0, Reason::Only),
        1 => (best.1, Reason::Only),
        _ if idlest.1 != usize::MAX => (idlest.1, Reason::Idlest),
        _ if far > 1 => (best.1, Reason::Lowest),
        _ if nearest_is_idle => (best.1, Reason::Idlest),
        _ => (best.1, Reason::Nearest),
    }
}
