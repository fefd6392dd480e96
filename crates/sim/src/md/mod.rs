//! md: how an array's sectors lie on its members, which member serves a read, and what a write costs.

pub mod balance;
pub mod build;
pub mod map;
pub mod member;

use std::collections::VecDeque;

use crate::bio::{Bio, Bios, NONE, Op};
use crate::kernel::Kernel;
use crate::outcome::{ArrayStats, SlotStats};
use balance::Reason;
use map::Place;
use member::Slot;

/// Copies of a RAID-10 that are looked at on the stack: more than anybody has.
pub const MAX_COPIES: usize = 32;

/// How an array's sectors lie on its members.
#[derive(Debug)]
pub enum Layout {
    /// Members one after the other.
    Linear(map::Linear),
    /// Striping.
    Raid0(map::Raid0),
    /// Every member holds everything.
    Raid1,
    /// Striped copies.
    Raid10(map::Raid10),
}

/// An md array in use.
#[derive(Debug)]
pub struct Array {
    node: u16,
    kernel: Kernel,
    layout: Layout,
    near: u32,
    far: u32,
    /// The members, by slot.
    pub slots: Vec<Slot>,
    /// How much the array holds.
    pub sectors: u64,
    /// Reads beyond this go to the first copy: a resync has not passed yet (`recovery_cp`).
    pub synced: u64,
    /// What was counted.
    pub stats: ArrayStats,
}

impl Array {
    /// Splits a bio for the array into bios for its members, and queues them to be submitted in this order.
    #[inline]
    pub fn map(&mut self, number: u32, bios: &mut Bios, out: &mut VecDeque<u32>) {
        let bio = bios[number];
        bios[number].parts = 0;
        match bio.op {
            Op::Flush => self.fan_out(number, &bio, None, bios, out),
            Op::Read if matches!(self.layout, Layout::Raid1) => self.read_mirror(number, &bio, bios, out),
            Op::Write if matches!(self.layout, Layout::Raid1) => {
                self.fan_out(number, &bio, Some(bio.sector), bios, out);
            }
            _ => self.map_pieces(number, &bio, bios, out),
        }
    }

    #[inline]
    fn read_mirror(&mut self, number: u32, bio: &Bio, bios: &mut Bios, out: &mut VecDeque<u32>) {
        let choose_first = bio.end() > self.synced;
        let (slot, reason) =
            balance::raid1(self.kernel, &mut self.slots, bio.sector, bio.sectors, choose_first);
        count(&mut self.stats.slots[slot], reason);
        self.child(number, bio, slot, bio.sector, bio.sectors, bios, out);
    }

    /// The same for every member: writes of a mirror, and flushes.
    fn fan_out(
        &mut self,
        number: u32,
        bio: &Bio,
        sector: Option<u64>,
        bios: &mut Bios,
        out: &mut VecDeque<u32>,
    ) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].present {
                if bio.op == Op::Write {
                    self.stats.slots[slot].writes += 1;
                }
                self.child(number, bio, slot, sector.unwrap_or(0), bio.sectors, bios, out);
            }
        }
    }

    fn map_pieces(&mut self, number: u32, bio: &Bio, bios: &mut Bios, out: &mut VecDeque<u32>) {
        let (mut sector, end) = (bio.sector, bio.end());
        while sector < end {
            let room = match &self.layout {
                Layout::Linear(map) => map.boundary(sector),
                Layout::Raid0(map) => map.boundary(sector),
                Layout::Raid1 => u64::MAX,
                Layout::Raid10(map) => map.boundary(sector),
            };
            let sectors = room.min(end - sector) as u32;
            self.map_piece(number, bio, sector, sectors, bios, out);
            sector += u64::from(sectors);
        }
    }

    #[inline]
    fn map_piece(
        &mut self,
        number: u32,
        bio: &Bio,
        sector: u64,
        sectors: u32,
        bios: &mut Bios,
        out: &mut VecDeque<u32>,
    ) {
        const NOWHERE: Place = Place { slot: 0, sector: 0 };
        // Clearing room for the most would cost more than all the rest.
        let (mut few, mut many);
        let copies: &mut [Place] = match &self.layout {
            Layout::Raid10(map) if map.copies() > 4 => {
                many = [NOWHERE; MAX_COPIES];
                &mut many
            }
            _ => {
                few = [NOWHERE; 4];
                &mut few
            }
        };
        let count_of_copies = match &self.layout {
            Layout::Linear(map) => one(copies, map.place(sector)),
            Layout::Raid0(map) => one(copies, map.place(sector)),
            Layout::Raid1 => 0,
            Layout::Raid10(map) => {
                map.places(sector, copies);
                map.copies() as usize
            }
        };
        let copies = &copies[..count_of_copies];
        if bio.op == Op::Read {
            let choose_first = sector + u64::from(sectors) > self.synced;
            let (chosen, reason) =
                balance::raid10(self.kernel, &self.slots, copies, self.near, self.far, choose_first);
            let Place { slot, sector } = copies[chosen];
            count(&mut self.stats.slots[slot as usize], reason);
            self.child(number, bio, slot as usize, sector, sectors, bios, out);
            return;
        }
        for &Place { slot, sector } in copies {
            if self.slots[slot as usize].present {
                self.stats.slots[slot as usize].writes += 1;
                self.child(number, bio, slot as usize, sector, sectors, bios, out);
            }
        }
    }

    #[inline(always)]
    fn child(
        &mut self,
        parent: u32,
        bio: &Bio,
        slot: usize,
        sector: u64,
        sectors: u32,
        bios: &mut Bios,
        out: &mut VecDeque<u32>,
    ) {
        self.slots[slot].pending += 1;
        bios[parent].parts += 1;
        out.push_back(bios.add(Bio {
            node: self.slots[slot].node,
            slot: slot as u8,
            sector,
            sectors,
            parent,
            parts: 0,
            next: NONE,
            // md's clones keep REQ_SYNC but not REQ_IDLE, so writeback throttling applies to them.
            direct: false,
            ..*bio
        }));
    }

    /// A member has done its part.
    #[inline]
    pub fn part_done(&mut self, part: &Bio) {
        let slot = &mut self.slots[part.slot as usize];
        slot.pending -= 1;
        if part.op != Op::Flush {
            slot.head = part.end();
        }
    }

    /// The array's node.
    pub fn node(&self) -> u16 {
        self.node
    }
}

#[inline]
fn one(copies: &mut [Place], place: Place) -> usize {
    copies[0] = place;
    1
}

#[inline]
fn count(stats: &mut SlotStats, reason: Reason) {
    match reason {
        Reason::Only => stats.only += 1,
        Reason::Sequential => stats.sequential += 1,
        Reason::Idlest => stats.idlest += 1,
        Reason::Nearest => stats.nearest += 1,
        Reason::Lowest => stats.lowest += 1,
    }
}
