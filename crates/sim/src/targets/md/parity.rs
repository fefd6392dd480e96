//! What RAID-4, 5 and 6 read and write of a stripe, to write to it or to read from it.
//!
//! drivers/md/raid5.c (Linux 6.1): `need_this_block` and `fetch_block` on what is read at once,
//! `handle_stripe_dirtying` on the choice between the ways to new parity, and `handle_stripe`, which goes
//! round both until nothing is missing. A stripe here is what the cache holds: a page of each member.
//!
//! Sets of members are bit masks, slot 0 in the lowest bit.

use super::map::Parity;

/// How new parity is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// From all the data, with nothing to read.
    Full,
    /// Read-modify-write: from the old parity, the old data and the new.
    Modify,
    /// Reconstruct-write: from the new data and what is not written.
    Reconstruct,
}

/// `rmw_level` in sysfs: when to read, modify and write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// 0: never. All that RAID-6 had before 4.1, and has where the processor knows no `xor_syndrome`.
    Reconstruct,
    /// 1: when it reads less.
    #[default]
    Fewer,
    /// 2: when it does not read more.
    Modify,
}

/// What a write to a stripe needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Members to read first.
    pub read: u64,
    /// Members to write afterwards, parity with them.
    pub write: u64,
    /// How parity is had.
    pub method: Method,
}

/// A stripe's members as the cache finds them.
#[derive(Clone, Copy, Debug)]
pub struct Stripe {
    /// How many there are, 64 at most.
    pub disks: u32,
    /// Which of them have parity.
    pub parity: Parity,
    /// Members that are not there.
    pub missing: u64,
    /// Members that are being rebuilt and do not have this stripe yet: written, not read.
    pub rebuilding: u64,
    /// Pages that the cache has already.
    pub cached: u64,
    /// Whether parity is not to be trusted, because a resync has not come this far.
    pub dirty: bool,
    /// When to read, modify and write.
    pub preference: Preference,
}

impl Stripe {
    /// A healthy stripe of which nothing is cached.
    #[cfg(test)]
    pub fn new(disks: u32, parity: Parity) -> Self {
        let preference = Preference::default();
        Self { disks, parity, missing: 0, rebuilding: 0, cached: 0, dirty: false, preference }
    }

    /// What to read to have these members' pages; none if too many are lost.
    ///
    /// A lost one needs all the others, in RAID-6 both parities even if one would do. An array that is whole
    /// does not come here: its reads go around the cache.
    pub fn read(&self, wanted: u64) -> Option<u64> {
        if self.lost().count_ones() > self.parities().count_ones() {
            return None;
        }
        let all = if wanted & self.lost() & !self.cached != 0 { self.all() } else { wanted };
        Some(all & !self.lost() & !self.cached)
    }

    /// What to read and write when the pages `whole` are overwritten, and something of the pages `part`; none
    /// if too many members are lost.
    pub fn write(&self, whole: u64, part: u64) -> Option<Plan> {
        let (lost, parities) = (self.lost(), self.parities());
        if lost.count_ones() > parities.count_ones() {
            return None;
        }
        let mut round = Round { stripe: self, whole, part, have: self.cached, read: 0 };
        // Each round has more pages than the one before, and the last one needs none.
        for _ in 0..=self.disks {
            if part != 0 || lost != 0 {
                round.fetch();
            }
            let (modify, reconstruct) = round.ways();
            if modify.cost == 0 || reconstruct.cost == 0 {
                let method = match (reconstruct.cost, round.read) {
                    (0, 0) => Method::Full,
                    (0, _) => Method::Reconstruct,
                    _ => Method::Modify,
                };
                let write = (whole | part | parities) & !self.missing;
                return Some(Plan { read: round.read, write, method });
            }
            let prefers = self.preference == Preference::Modify && modify.cost == reconstruct.cost;
            let way = if modify.cost < reconstruct.cost || prefers { modify } else { reconstruct };
            round.get(way.missing & !lost);
        }
        unreachable!("a stripe that waits for ever: {self:?}, {whole:#x} and {part:#x} written")
    }

    /// All the slots.
    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.disks)
    }

    /// The slots of parity.
    fn parities(&self) -> u64 {
        1 << self.parity.p | self.parity.q.map_or(0, |q| 1 << q)
    }

    /// What cannot be read.
    fn lost(&self) -> u64 {
        self.missing | self.rebuilding
    }
}

/// A write under way.
struct Round<'a> {
    stripe: &'a Stripe,
    whole: u64,
    part: u64,
    /// Pages in the cache.
    have: u64,
    /// Pages that were read.
    read: u64,
}

/// A way to new parity.
struct Way {
    /// The pages that it lacks.
    missing: u64,
    /// How many these are to read.
    cost: u32,
}

impl Round<'_> {
    /// Reads these, as far as they are not there.
    fn get(&mut self, slots: u64) {
        let slots = slots & !self.have;
        self.read |= slots;
        self.have |= slots;
    }

    /// `handle_stripe_fill`: old pages that are needed whatever the method.
    fn fetch(&mut self) {
        let (all, lost) = (self.stripe.all(), self.stripe.lost());
        let needed = self.needed() & !self.have;
        if needed == 0 {
            return;
        }
        // The pages of the lost members can be calculated once all the others are there.
        if needed & lost != 0 && (all & !lost & !self.have) == 0 {
            self.have |= lost;
        } else {
            self.get(needed & !lost);
        }
    }

    /// `need_this_block` of every slot.
    fn needed(&self) -> u64 {
        let Stripe { preference, dirty, .. } = *self.stripe;
        let (all, lost, parities) = (self.stripe.all(), self.stripe.lost(), self.stripe.parities());
        let absent = lost & !self.have;
        if lost == 0 {
            return self.part;
        }
        if absent & self.part != 0 {
            return all;
        }
        let two = lost.count_ones() >= 2 && absent & (self.whole | parities) != 0;
        let force = two || preference == Preference::Reconstruct || dirty;
        if force && absent & !parities & !self.whole != 0 {
            return all;
        }
        self.part
    }

    /// `handle_stripe_dirtying`: to read, modify and write, and to reconstruct and write.
    fn ways(&self) -> (Way, Way) {
        let Stripe { disks, preference, dirty, .. } = *self.stripe;
        let (all, lost, parities) = (self.stripe.all(), self.stripe.lost(), self.stripe.parities());
        // What cannot be read costs more than everything.
        let cost = |slots: u64| (slots & !lost).count_ones() + 2 * disks * (slots & lost).count_ones();
        let way = |missing| Way { missing, cost: cost(missing) };
        let mut modify = way((self.whole | self.part | parities) & !self.have);
        if preference == Preference::Reconstruct || dirty && lost == 0 {
            modify.cost = u32::MAX;
        }
        (modify, way(all & !self.whole & !parities & !self.have))
    }
}

#[cfg(test)]
mod tests;
