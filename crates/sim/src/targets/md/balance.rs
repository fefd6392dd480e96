//! Read balancing: which copy serves a read. Follows `read_balance` of drivers/md/raid1.c and raid10.c by kernel
//! version, because it is the most important factor in the performance of arrays with unlike members.

use crate::kernel::Kernel;
use crate::targets::md::member::MemberSlot;
use crate::targets::md::report::BalanceReason;
use blklab_md::map::MemberSector;

/// RAID-1: the slot that serves a read of `sectors` at `sector`.
#[inline(always)]
pub fn read_balance_raid1(
    kernel: Kernel, slots: &mut [MemberSlot], sector: u64, sectors: u32, choose_first: bool,
) -> (usize, BalanceReason) {
    let (best, reason) = choose_raid1_slot(kernel, slots, sector, choose_first);
    let slot = &mut slots[best];
    if slot.next_seq != sector {
        slot.seq_start = sector;
    }
    slot.next_seq = sector + u64::from(sectors);
    (best, reason)
}

#[inline(always)]
fn choose_raid1_slot(kernel: Kernel, slots: &[MemberSlot], sector: u64, choose_first: bool) -> (usize, BalanceReason) {
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
            return (index, BalanceReason::Only);
        }
        candidates += 1;
        flash |= !slot.rotational;
        let distance = slot.distance(sector);
        if slot.next_seq == sector || distance == 0 {
            if !may_leave_run(slot) {
                return (index, BalanceReason::Sequential);
            }
            if kernel.raid1_moves_long_runs() {
                // From 6.9 on: the run stays here unless a disk is idle.
                stay = if stay == usize::MAX { index } else { stay };
            } else {
                // Older kernels do not look at the later disks, so the run stays.
                (idlest, nearest, move_on) = ((slot.pending, index), (distance, index), true);
            }
            continue;
        }
        if !move_on && slot.pending < idlest.0 {
            idlest = (slot.pending, index);
        }
        if !move_on && distance < nearest.0 {
            nearest = (distance, index);
        }
    }
    if stay != usize::MAX {
        let idle = idlest.1 != usize::MAX && idlest.0 == 0;
        return if idle { (idlest.1, BalanceReason::Idlest) } else { (stay, BalanceReason::Sequential) };
    }
    match candidates {
        0 => (if write_mostly == usize::MAX { 0 } else { write_mostly }, BalanceReason::Only),
        1 => (idlest.1, BalanceReason::Only),
        _ if (flash && kernel.raid1_prefers_idle()) || idlest.0 == 0 => (idlest.1, BalanceReason::Idlest),
        _ => (nearest.1, BalanceReason::Nearest),
    }
}

/// Whether a sequential run on flash has exceeded the optimal I/O size, so that an idle disk can continue it.
fn may_leave_run(slot: &MemberSlot) -> bool {
    !slot.rotational
        && slot.optimal > 0
        && slot.seq_start != u64::MAX
        && slot.next_seq > slot.optimal
        && slot.next_seq - slot.optimal >= slot.seq_start
}

/// RAID-10: the index in `copies` of the copy that serves a read.
#[inline]
pub fn read_balance_raid10(
    kernel: Kernel, slots: &[MemberSlot], copies: &[MemberSector], near: u32, far: u32, choose_first: bool,
) -> (usize, BalanceReason) {
    let mut best = (u64::MAX, usize::MAX);
    let mut idlest = (u32::MAX, usize::MAX);
    let (mut candidates, mut nearest_is_idle) = (0, false);
    for (index, copy) in copies.iter().enumerate() {
        let slot = &slots[copy.slot as usize];
        if !slot.readable {
            continue;
        }
        if choose_first {
            return (index, BalanceReason::Only);
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
        0 => (0, BalanceReason::Only),
        1 => (best.1, BalanceReason::Only),
        _ if idlest.1 != usize::MAX => (idlest.1, BalanceReason::Idlest),
        _ if far > 1 => (best.1, BalanceReason::Lowest),
        _ if nearest_is_idle => (best.1, BalanceReason::Idlest),
        _ => (best.1, BalanceReason::Nearest),
    }
}
