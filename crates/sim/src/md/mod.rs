//! md: how an array's sectors lie on its members, which member serves a read, and what a write costs.

pub mod balance;
mod barrier;
pub mod bitmap;
pub mod build;
mod gate;
pub mod map;
pub mod member;
pub mod parity;
pub mod stripes;
mod survive;
pub mod sync;

use std::collections::VecDeque;

use crate::bio::{Bio, Bios, NONE, Op};
use crate::kernel::Kernel;
use crate::outcome::{ArrayStats, SlotStats};
use balance::Reason;
use barrier::Barrier;
use bitmap::Bitmap;
pub use gate::{Entered, HELD};
use map::Place;
use member::Slot;
use stripes::{Issue, Stripes};
use sync::Sync;

/// Copies of a RAID-10 that are looked at on the stack: more than anybody has.
pub const MAX_COPIES: usize = 32;

/// What an array has to do when a bio is done.
pub mod phase {
    /// A row of the stripe cache has read or written: `io` is its entry.
    pub const ROW: u8 = 1;
    /// A piece of a sync has been read or written: `io` is its number.
    pub const SYNC: u8 = 2;
    /// The array has counted the bio when it came.
    pub const COUNTED: u8 = 3;
    /// A write or a flush of the bitmap: `io` is the array's node.
    pub const BITMAP: u8 = 4;
}

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
    /// Striping with parity, and its cache.
    Raid456(Box<Stripes>),
}

/// An md array in use.
#[derive(Debug)]
pub struct Array {
    node: u16,
    kernel: Kernel,
    layout: Layout,
    near: u32,
    far: u32,
    /// Linear and RAID-0 pass bios on as they are. The others' clones keep REQ_SYNC but not REQ_IDLE, so that
    /// writeback throttling applies to them.
    passes_on: bool,
    /// The members, by slot.
    pub slots: Vec<Slot>,
    /// How much the array holds.
    pub sectors: u64,
    /// Reads beyond this go to the first copy: a resync has not passed yet (`recovery_cp`).
    pub synced: u64,
    /// Whether bios may have to wait before they are mapped: `enter` comes before `map` then.
    pub gated: bool,
    /// The array's thread, if it needs one.
    pub thread: u32,
    /// The write-intent bitmap.
    pub bitmap: Option<Box<Bitmap>>,
    /// The sync that runs.
    pub sync: Option<Box<Sync>>,
    /// What keeps others away from it.
    pub barrier: Option<Barrier>,
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
        self.child(number, bio, Place { slot: slot as u32, sector: bio.sector }, bio.sectors, bios, out);
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
                let place = Place { slot: slot as u32, sector: sector.unwrap_or(0) };
                self.child(number, bio, place, bio.sectors, bios, out);
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
                Layout::Raid456(stripes) => stripes.map.boundary(sector),
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
            Layout::Raid456(stripes) => one(copies, stripes.map.place(sector)),
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
            count(&mut self.stats.slots[copies[chosen].slot as usize], reason);
            self.child(number, bio, copies[chosen], sectors, bios, out);
            return;
        }
        for &place in copies {
            let slot = place.slot as usize;
            if self.slots[slot].present {
                self.stats.slots[slot].writes += 1;
                self.child(number, bio, place, sectors, bios, out);
            }
        }
    }

    #[inline(always)]
    fn child(
        &mut self,
        parent: u32,
        bio: &Bio,
        Place { slot, sector }: Place,
        sectors: u32,
        bios: &mut Bios,
        out: &mut VecDeque<u32>,
    ) {
        let slot = slot as usize;
        self.slots[slot].pending += 1;
        bios[parent].parts += 1;
        out.push_back(bios.add(Bio {
            node: self.slots[slot].node,
            slot: slot as u8,
            sector,
            sectors,
            parent,
            parts: 0,
            phase: 0,
            next: NONE,
            direct: bio.direct && self.passes_on,
            ..*bio
        }));
    }

    /// A member has done its part.
    #[inline]
    pub fn part_done(&mut self, part: &Bio) {
        let slot = &mut self.slots[part.slot as usize];
        slot.pending -= 1;
        slot.moved += u64::from(part.sectors);
        if part.op != Op::Flush {
            slot.head = part.end();
        }
    }

    /// Makes the bios of a row's I/O.
    pub fn issue(&mut self, entry: u32, issue: Issue, bios: &mut Bios, out: &mut VecDeque<u32>) {
        let parts = issue.slots.count_ones();
        let whole = Bio {
            node: self.node,
            slot: 0,
            op: issue.op,
            direct: false,
            phase: phase::ROW,
            sector: issue.sector,
            sectors: stripes::ROW_SECTORS as u32,
            parent: NONE,
            io: entry,
            parts: 0,
            next: NONE,
        };
        let parent = bios.add(whole);
        let syncing = self.stripes().is_some_and(|stripes| stripes.is_syncing(entry));
        let mut slots = issue.slots;
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            self.slots[slot].synced += if syncing { stripes::ROW_SECTORS } else { 0 };
            let stats = &mut self.stats.slots[slot];
            *(if issue.op == Op::Read { &mut stats.only } else { &mut stats.writes }) += 1;
            let place = Place { slot: slot as u32, sector: whole.sector };
            self.child(parent, &whole, place, whole.sectors, bios, out);
        }
        debug_assert_eq!(bios[parent].parts, parts);
    }

    /// Nothing is under way.
    #[cfg(test)]
    pub fn assert_idle(&self) {
        assert!(self.slots.iter().all(|slot| slot.pending == 0));
        assert!(self.sync.is_none() && self.barrier.is_none(), "a sync that waits for ever");
        if let Layout::Raid456(stripes) = &self.layout {
            stripes.assert_idle();
        }
        if let Some(bitmap) = &self.bitmap {
            bitmap.assert_idle();
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
