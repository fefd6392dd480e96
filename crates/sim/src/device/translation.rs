//! A flash translation layer: which pages of a used disk must be copied before a block can be erased.
//!
//! Pages are mapped singly. When no block is free, the block with the fewest valid pages is erased ("greedy" garbage
//! collection), after its valid pages were copied. Under uniform random writes this copies as many pages as the
//! analysis of Desnoyers ("Analytic models of SSD write performance", ACM TOS 2014) says; a test compares.
//!
//! A disk has more pages than a simulation can hold, so that a miniature stands for it: every `scale`-th page, in
//! proportionally fewer blocks.

use crate::rng::Rng;
use serde::{Deserialize, Serialize};
use std::sync::Mutex;

/// A disk that is not new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlashUse {
    /// Bytes that the disk offers.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = false)))]
    pub capacity: u64,
    /// Flash that it does not offer, as a share of what it offers.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"range": [0.001, 10], "default": 0.07})))]
    pub over_provisioning: f64,
    /// Share of its pages that hold data, 0 to 1; the rest was discarded. All of it was written once, and twice at
    /// random places. In an experiment file one of: `"used"`, what a run of minutes shows on a trimmed disk in use;
    /// `"fresh"`, as its maker measures a new disk; `"unwritten"`, whose reads do not touch flash; `"steady"` (1, the
    /// steady state under random writes) and `"full:80%"`, which copy valid pages before they erase blocks; `"worn"`, after
    /// years. The cache of single-bit cells begins empty if the state is used, fresh or unwritten, and full otherwise;
    /// `slc_fill` can say another share. If the state does not say how full the disk is, half of it is.
    #[cfg_attr(feature = "schema", schemars(extend("toml" = {"key": "state", "type": "fields.FlashState", "default": "used"})))]
    pub fill: f64,
}

/// Bytes of a page of the map.
const PAGE_BYTES: u64 = 4096;
/// Pages of the miniature at most, and pages of a block. Real blocks are larger; from 256 pages on this changes little.
const MOST_PAGES: u64 = 1 << 19;
const BLOCK_PAGES: u32 = 256;
/// How often all pages are overwritten before the run: until then the copies have become stationary.
const OVERWRITES: u64 = 2;
/// Blocks besides the over-provisioning: two that are being filled, and one that is free.
const OPEN_BLOCKS: u64 = 3;
/// Pages over which the rate of copies is a mean.
const WINDOW: f64 = 16384.0;
const NONE: u32 = u32::MAX;

/// The last maps that were filled. Campaigns and searches simulate the same used disks hundreds of times.
static FILLED: Mutex<Vec<(FlashUse, Translation)>> = Mutex::new(Vec::new());
/// Maps in `FILLED` at most; each has a few MB.
const MOST_FILLED: usize = 8;

/// The map of a disk.
#[derive(Clone, Debug)]
pub struct Translation {
    pub scale: u64, // one of so many pages is simulated; odd, so that no stride of a load misses all of them
    physical: Vec<u32>, // where each page is
    logical: Vec<u32>, // which page each place holds, if it is valid
    valid: Vec<u32>, // valid pages of each block
    by_valid: Vec<Vec<u32>>, // full blocks by the number of their valid pages
    place: Vec<u32>, // where each block is in its list
    fewest: usize,  // no full block has fewer valid pages
    free: Vec<u32>,
    open: [(u32, u32); 2], // the block and its next page for new data, and for copies
    copies: u64,           // pages that were copied, and how many for a written page of late
    rate: f64,
}

impl Translation {
    /// A disk in this state.
    pub fn new(used: &FlashUse) -> Self {
        // The lock is held while a map is filled, so that parallel runs do not fill the same one.
        let mut filled = FILLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, map)) = filled.iter().find(|(of, _)| of == used) {
            return map.clone();
        }
        let map = Self::filled(used);
        filled.truncate(MOST_FILLED - 1);
        filled.insert(0, (used.clone(), map.clone()));
        map
    }

    fn filled(used: &FlashUse) -> Self {
        let pages = (used.capacity / PAGE_BYTES).max(u64::from(BLOCK_PAGES));
        let scale = pages.div_ceil(MOST_PAGES) | 1;
        let logical = pages / scale;
        let with_spare = (logical as f64 * (1.0 + used.over_provisioning.clamp(0.001, 10.0))) as u64;
        let blocks = (with_spare / u64::from(BLOCK_PAGES) + OPEN_BLOCKS) as u32;
        let mut map = Self {
            scale,
            physical: vec![NONE; logical as usize],
            logical: vec![NONE; (blocks * BLOCK_PAGES) as usize],
            valid: vec![0; blocks as usize],
            by_valid: vec![Vec::new(); BLOCK_PAGES as usize + 1],
            place: vec![NONE; blocks as usize],
            fewest: 0,
            free: (2..blocks).collect(),
            open: [(0, 0), (1, 0)],
            copies: 0,
            rate: 0.0,
        };
        let filled = ((logical as f64 * used.fill.clamp(0.0, 1.0)) as u64).max(1);
        (0..filled).for_each(|page| map.write_page(page as u32));
        let mut random = Rng::new(used.capacity);
        (0..OVERWRITES * filled).for_each(|_| map.write_page(random.below(filled) as u32));
        map
    }

    /// Writes bytes; returns how many must be copied for it.
    ///
    /// Blocks are erased one by one, and a page of the miniature stands for many, so that the copies come in bursts.
    /// Controllers spread them: what counts is their mean over the last `WINDOW` pages.
    pub fn write(&mut self, byte: u64, bytes: u64) -> f64 {
        self.pages(byte, bytes).for_each(|page| self.write_page(page));
        bytes as f64 * self.rate
    }

    /// Forgets the pages that lie in a range as a whole.
    pub fn discard(&mut self, byte: u64, bytes: u64) {
        let first = byte.next_multiple_of(PAGE_BYTES);
        for page in self.pages(first, (byte + bytes).saturating_sub(first) / PAGE_BYTES * PAGE_BYTES) {
            self.invalidate(page);
        }
    }

    /// The pages of the miniature in a range of bytes.
    fn pages(&self, byte: u64, bytes: u64) -> impl Iterator<Item = u32> + use<> {
        let (first, end) = (byte / PAGE_BYTES, (byte + bytes).div_ceil(PAGE_BYTES));
        let most = self.physical.len() as u64;
        (first.div_ceil(self.scale)..end.div_ceil(self.scale).min(most)).map(|page| page as u32)
    }

    fn write_page(&mut self, page: u32) {
        self.invalidate(page);
        self.append(page, 0);
        let mut copies = 0;
        while self.free.is_empty() {
            copies += self.collect();
        }
        self.copies += u64::from(copies);
        self.rate += (f64::from(copies) - self.rate) / WINDOW;
    }

    fn invalidate(&mut self, page: u32) {
        let old = std::mem::replace(&mut self.physical[page as usize], NONE);
        if old == NONE {
            return;
        }
        self.logical[old as usize] = NONE;
        let block = old / BLOCK_PAGES;
        let valid = self.valid[block as usize];
        self.valid[block as usize] = valid - 1;
        if self.place[block as usize] != NONE {
            self.unlist(block, valid);
            self.list(block);
        }
    }

    /// Adds a page to an open block; another block is opened when it is full.
    fn append(&mut self, page: u32, which: usize) {
        let (block, next) = self.open[which];
        let at = block * BLOCK_PAGES + next;
        (self.physical[page as usize], self.logical[at as usize]) = (at, page);
        self.valid[block as usize] += 1;
        self.open[which].1 += 1;
        if next + 1 == BLOCK_PAGES {
            self.list(block);
            self.open[which] = (self.free.pop().expect("a block is kept free"), 0);
        }
    }

    /// Erases the block with the fewest valid pages; returns how many were copied.
    fn collect(&mut self) -> u32 {
        while self.by_valid[self.fewest].is_empty() {
            self.fewest += 1;
        }
        let valid = self.fewest as u32;
        let block = self.by_valid[self.fewest][0];
        self.unlist(block, valid);
        // It is free before its pages are copied: they may need it.
        self.free.push(block);
        let first = block * BLOCK_PAGES;
        let pages: Vec<u32> = (first..first + BLOCK_PAGES).map(|at| self.logical[at as usize]).collect();
        self.valid[block as usize] = 0;
        self.logical[first as usize..(first + BLOCK_PAGES) as usize].fill(NONE);
        pages.into_iter().filter(|&page| page != NONE).for_each(|page| self.append(page, 1));
        valid
    }

    fn list(&mut self, block: u32) {
        let valid = self.valid[block as usize] as usize;
        self.place[block as usize] = self.by_valid[valid].len() as u32;
        self.by_valid[valid].push(block);
        self.fewest = self.fewest.min(valid);
    }

    fn unlist(&mut self, block: u32, valid: u32) {
        let (list, place) = (&mut self.by_valid[valid as usize], self.place[block as usize] as usize);
        list.swap_remove(place);
        if let Some(&moved) = list.get(place) {
            self.place[moved as usize] = place as u32;
        }
        self.place[block as usize] = NONE;
    }
}

#[cfg(test)]
mod tests;
