//! What RAID-4, 5 and 6 read and write of a stripe.
//!
//! drivers/md/raid5.c (Linux 6.1): `need_this_block` and `fetch_block` decide what is read at once,
//! `handle_stripe_dirtying` chooses the method for new parity, and `handle_stripe` repeats both until no page is
//! missing. A stripe here is what the cache holds: one page of each member.
//!
//! Sets of members are bit masks, slot 0 in the lowest bit.

use crate::events::Time;
use crate::load::Host;
use blklab_md::map::ParitySlots;

/// How new parity is calculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityMethod {
    Full,        // From all the data, with nothing to read
    Modify,      // Read-modify-write: from the old parity, the old data and the new
    Reconstruct, // Reconstruct-write: from the new data and what is not written
}

/// `rmw_level` in sysfs: when to use read-modify-write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RmwLevel {
    Reconstruct, // 0: never. RAID-6 before 4.1, and where the processor has no `xor_syndrome`.
    /// 1: if it reads less.
    #[default]
    Fewer,
    Modify, // 2: if it does not read more
}

/// The I/O of a write to a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePlan {
    pub read: u64,            // Members to read first
    pub write: u64,           // Members to write afterwards, parity included
    pub method: ParityMethod, // How parity is calculated
}

/// The state of a stripe's members.
#[derive(Clone, Copy, Debug)]
pub struct Stripe {
    pub disks: u32,          // How many there are, 64 at most
    pub parity: ParitySlots, // The slots of parity
    pub missing: u64,        // Missing members
    pub rebuilding: u64,     // Members being rebuilt that do not have this stripe yet: written, not read
    pub cached: u64,         // Pages that are in the cache
    pub dirty: bool,         // Whether parity is not valid, because a resync has not reached it
    pub rmw_level: RmwLevel, // When to use read-modify-write
}

impl Stripe {
    /// The members to read so that the pages `wanted` are available; none if too many are lost.
    ///
    /// A lost page needs all other members, in RAID-6 both parities even if one would do. Healthy arrays do not come
    /// here: their reads bypass the cache.
    pub fn plan_read(&self, wanted: u64) -> Option<u64> {
        if self.lost_too_many() {
            return None;
        }
        let all = if wanted & self.lost_slots() & !self.cached != 0 { self.all_slots() } else { wanted };
        Some(all & !self.lost_slots() & !self.cached)
    }

    /// The members to read and write if the pages `whole` are overwritten completely and the pages `part` partly;
    /// none if too many members are lost.
    pub fn plan_write(&self, whole: u64, part: u64) -> Option<WritePlan> {
        let (lost, parities) = (self.lost_slots(), self.parity_slots());
        if self.lost_too_many() {
            return None;
        }
        let mut write = StripeWrite { stripe: self, whole, part, have: self.cached, read: 0 };
        // Each round reads more pages than the one before, so the last one needs none.
        for _ in 0..=self.disks {
            if part != 0 || lost != 0 {
                write.fetch_old_pages();
            }
            let (modify, reconstruct) = write.method_costs();
            if modify.cost == 0 || reconstruct.cost == 0 {
                let method = match (reconstruct.cost, write.read) {
                    (0, 0) => ParityMethod::Full,
                    (0, _) => ParityMethod::Reconstruct,
                    _ => ParityMethod::Modify,
                };
                let written = (whole | part | parities) & !self.missing;
                return Some(WritePlan { read: write.read, write: written, method });
            }
            let prefers = self.rmw_level == RmwLevel::Modify && modify.cost == reconstruct.cost;
            let cheaper = if modify.cost < reconstruct.cost || prefers { modify } else { reconstruct };
            write.read_pages(cheaper.missing & !lost);
        }
        unreachable!("the stripe waits for ever: {self:?}, {whole:#x} and {part:#x} written")
    }

    fn all_slots(&self) -> u64 {
        u64::MAX >> (64 - self.disks)
    }

    fn parity_slots(&self) -> u64 {
        1 << self.parity.p | self.parity.q.map_or(0, |q| 1 << q)
    }

    fn lost_too_many(&self) -> bool {
        self.lost_slots() != 0 && self.lost_slots().count_ones() > self.parity_slots().count_ones()
    }

    /// The slots that cannot be read.
    fn lost_slots(&self) -> u64 {
        self.missing | self.rebuilding
    }
}

/// A write that is being planned.
struct StripeWrite<'a> {
    stripe: &'a Stripe,
    whole: u64,
    part: u64,
    have: u64, // Pages in the cache
    read: u64, // Pages that were read
}

/// What one method for new parity still needs.
struct MethodCost {
    missing: u64, // The pages that are missing
    cost: u32,    // How many of them must be read
}

impl StripeWrite<'_> {
    /// Reads those of these pages that are not in the cache.
    fn read_pages(&mut self, slots: u64) {
        let slots = slots & !self.have;
        self.read |= slots;
        self.have |= slots;
    }

    /// `handle_stripe_fill`: reads old pages that every method needs.
    fn fetch_old_pages(&mut self) {
        let (all, lost) = (self.stripe.all_slots(), self.stripe.lost_slots());
        let needed = self.needed_slots() & !self.have;
        if needed == 0 {
            return;
        }
        // The lost members' pages can be calculated if all others are in the cache.
        if needed & lost != 0 && (all & !lost & !self.have) == 0 {
            self.have |= lost;
        } else {
            self.read_pages(needed & !lost);
        }
    }

    /// `need_this_block` of every slot.
    fn needed_slots(&self) -> u64 {
        let Stripe { rmw_level, dirty, .. } = *self.stripe;
        let (all, lost, parities) = (self.stripe.all_slots(), self.stripe.lost_slots(), self.stripe.parity_slots());
        let absent = lost & !self.have;
        if lost == 0 {
            return self.part;
        }
        if absent & self.part != 0 {
            return all;
        }
        let two = lost.count_ones() >= 2 && absent & (self.whole | parities) != 0;
        let force = two || rmw_level == RmwLevel::Reconstruct || dirty;
        if force && absent & !parities & !self.whole != 0 {
            return all;
        }
        self.part
    }

    /// `handle_stripe_dirtying`: the costs of read-modify-write and of reconstruct-write.
    fn method_costs(&self) -> (MethodCost, MethodCost) {
        let Stripe { disks, rmw_level, dirty, .. } = *self.stripe;
        let (all, lost, parities) = (self.stripe.all_slots(), self.stripe.lost_slots(), self.stripe.parity_slots());
        // A page that cannot be read costs more than all others.
        let penalty = |absent: u64| if absent == 0 { 0 } else { (2 * disks - 1) * absent.count_ones() };
        let cost = |slots: u64| slots.count_ones() + penalty(slots & lost);
        let method_cost = |missing| MethodCost { missing, cost: cost(missing) };
        let mut modify = method_cost((self.whole | self.part | parities) & !self.have);
        if rmw_level == RmwLevel::Reconstruct || dirty && lost == 0 {
            modify.cost = u32::MAX;
        }
        (modify, method_cost(all & !self.whole & !parities & !self.have))
    }
}

/// The time to calculate parity from `pages` data pages of a row, in no cache: half the speed that the kernel measures
/// at boot. Read-modify-write takes the pages that are written, takes out the old page and adds the new; for RAID-6 that
/// runs at half of that (`xor()` of the boot lines). Other methods take all data pages.
pub fn parity_time(host: &Host, parities: u32, method: ParityMethod, pages: u32) -> Time {
    let rate = if parities == 2 { host.syndrome_rate } else { host.xor_rate };
    let passes = if method == ParityMethod::Modify { 2 * parities } else { 1 };
    (f64::from(pages * passes * 2 * 4096) * 1e9 / rate.max(1) as f64) as Time
}

#[cfg(test)]
mod tests;
