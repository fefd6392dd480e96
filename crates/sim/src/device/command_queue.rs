//! The commands that wait for the mechanism of a rotating disk, and the one that it executes first.

use crate::device::DiskCommand;
use crate::device::geometry::{DiskPosition, Geometry, fraction};
use crate::device::hdd_spec::CommandOrder;
use crate::events::Time;

#[derive(Clone, Copy, Debug)]
pub struct QueuedCommand {
    pub command: DiskCommand,
    pub position: DiskPosition,
    pub batch: u32,
    pub arrival: u64,
    pub ready: Time, // When the controller passes it on
}

/// Commands of which a processor compares several at once.
const LANES: usize = 8;
/// The bound of a command that is not there, or must not be chosen.
const NEVER: i32 = i32::MAX;

/// Where commands begin, in short numbers, for the search by angle.
#[derive(Clone, Copy, Debug, Default)]
struct Beginnings {
    angles: [f32; LANES],
    tracks: [i32; LANES],
    batches: [u32; LANES],
    absent: [i32; LANES], // `NEVER` if there is no command, otherwise 0
}

/// Commands in no order.
#[derive(Debug, Default)]
pub struct CommandQueue {
    commands: Vec<QueuedCommand>,
    ends: Vec<u64>, // The byte behind each
    order: CommandOrder,
    by_angle: bool, // Whether the next two are in use
    beginnings: Vec<Beginnings>,
    bounds: Vec<[i32; LANES]>, // Revolutions before which the head is not there: the bits of numbers that are not negative
}

impl std::ops::Deref for CommandQueue {
    type Target = [QueuedCommand];

    fn deref(&self) -> &[QueuedCommand] {
        &self.commands
    }
}

/// A head at rest, and when it leaves: at `now` or, if that is later, `overhead` after a command is ready.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    pub geometry: &'a Geometry,
    pub head: &'a DiskPosition,
    pub now: Time,
    pub overhead: Time,
}

impl Departure<'_> {
    /// The time until the head is at the first byte of a command.
    fn reach_time(&self, queued: &QueuedCommand, to: &DiskPosition) -> Time {
        let ready = if to.byte == self.head.byte { self.now } else { queued.ready.max(self.now) + self.overhead };
        ready - self.now + self.geometry.reach_time(ready, self.head, to)
    }
}

impl CommandQueue {
    /// An empty queue of a disk whose data can move or not.
    pub fn new(order: CommandOrder, moving: bool) -> Self {
        Self { order, by_angle: order == CommandOrder::Rotation && !moving, ..Self::default() }
    }

    pub fn push(&mut self, queued: QueuedCommand) {
        self.ends.push(queued.command.byte + u64::from(queued.command.bytes));
        self.commands.push(queued);
        self.note_beginning(self.commands.len() - 1);
    }

    pub fn swap_remove(&mut self, index: usize) -> QueuedCommand {
        self.ends.swap_remove(index);
        let removed = self.commands.swap_remove(index);
        self.note_beginning(index);
        self.note_beginning(self.commands.len());
        removed
    }

    /// Notes where the command with an index begins, or that there is none.
    #[inline(always)]
    fn note_beginning(&mut self, index: usize) {
        if !self.by_angle {
            return;
        }
        if index / LANES == self.beginnings.len() {
            self.beginnings.push(Beginnings { absent: [NEVER; LANES], ..Beginnings::default() });
            self.bounds.push([NEVER; LANES]);
        }
        let (noted, lane) = (&mut self.beginnings[index / LANES], index % LANES);
        noted.absent[lane] = NEVER;
        if let Some(QueuedCommand { position, batch, .. }) = self.commands.get(index) {
            noted.angles[lane] = position.angle as f32;
            noted.tracks[lane] = position.track as i32;
            noted.batches[lane] = *batch;
            noted.absent[lane] = 0;
        }
    }

    /// Adds bytes to the first command that ends where they begin and is shorter than `most`, if there is one.
    pub fn append(&mut self, byte: u64, bytes: u32, most: u64) -> bool {
        if !self.ends.iter().fold(false, |any, &end| any | (end == byte)) {
            return false; // Nearly always, and the compiler compares several at once
        }
        for (end, queued) in self.ends.iter_mut().zip(&mut self.commands) {
            if *end == byte && u64::from(queued.command.bytes) < most {
                queued.command.bytes += bytes;
                *end += u64::from(bytes);
                return true;
            }
        }
        false
    }

    /// The index of the first command from an index on whose bytes are all in a range.
    pub fn find_within(&self, from: usize, start: u64, end: u64) -> Option<usize> {
        let inside = |index: &usize| self.ends[*index] <= end && self.commands[*index].command.byte >= start;
        (from..self.ends.len()).find(inside)
    }

    /// The command that is executed first, except those of a batch: (index, time until its first byte). `position_of`
    /// says where a command begins if the data of the disk move.
    pub fn first(
        &mut self, from: &Departure, without: Option<u32>, position_of: impl Fn(&QueuedCommand) -> DiskPosition,
    ) -> Option<(usize, Time)> {
        if self.by_angle {
            return self.first_reached(from, without);
        }
        let reach = |queued: &QueuedCommand| from.reach_time(queued, &position_of(queued));
        let distance = |queued: &QueuedCommand| (position_of(queued).cylinder - from.head.cylinder).abs();
        let index = match self.order {
            CommandOrder::Rotation => self.least(without, |queued| reach(queued) as f64),
            CommandOrder::Seek => self.least(without, distance),
            CommandOrder::Arrival => self.least(without, |queued| queued.arrival as f64),
        }?;
        Some((index, reach(&self.commands[index])))
    }

    /// The first command with the least rank, except those of a batch.
    fn least(&self, without: Option<u32>, rank: impl Fn(&QueuedCommand) -> f64) -> Option<usize> {
        let (mut first, mut least) = (None, f64::INFINITY);
        for (index, queued) in self.commands.iter().enumerate() {
            let rank = rank(queued);
            if rank < least && without != Some(queued.batch) {
                (first, least) = (Some(index), rank);
            }
        }
        first
    }

    /// The command that is reached first. Exact times are calculated only of those that can be the first according to
    /// the bounds of their times.
    fn first_reached(&mut self, from: &Departure, without: Option<u32>) -> Option<(usize, Time)> {
        let Departure { geometry, overhead, .. } = *from;
        let least = self.find_bounds(from, without)?;
        let mut most = (f32::from_bits(least as u32) + 3.0 * geometry.error).to_bits() as i32;
        loop {
            let candidates = self.bounds.as_flattened().iter().enumerate().filter(|&(_, &bound)| bound <= most);
            let time = |queued: &QueuedCommand| from.reach_time(queued, &queued.position);
            let (time, index) = candidates.map(|(index, _)| (time(&self.commands[index]), index)).min()?;
            let latest = (time.saturating_sub(overhead) as f64 / geometry.rotation) as f32;
            if latest.to_bits() as i32 <= most {
                return Some((index, time));
            }
            most = latest.to_bits() as i32; // It is missed by a little, and reached a revolution later
        }
    }

    /// Finds the bounds of all commands; returns the least, if there is one.
    fn find_bounds(&mut self, from: &Departure, without: Option<u32>) -> Option<i32> {
        let Departure { geometry, head, now, overhead } = *from;
        let under_head = fraction((now + overhead) as f64 / geometry.rotation) as f32;
        let (track, angle) = (head.track as i32, head.angle as f32);
        let (bound_of, (excluded, batch)) = (geometry.bounds(), without.map_or((0, 0), |batch| (NEVER, batch)));
        let mut least = [NEVER; LANES];
        for (noted, bounds) in self.beginnings.iter().zip(&mut self.bounds) {
            let mut found = [NEVER; LANES];
            for lane in 0..LANES {
                let (at, tracks) = (noted.angles[lane], (noted.tracks[lane] - track).abs() as f32);
                let bound = bound_of(at - under_head, tracks).to_bits() as i32;
                // Where the head is, nothing must be waited for.
                let bound = if (tracks == 0.0) & (at == angle) { 0 } else { bound };
                let excluded = if noted.batches[lane] == batch { excluded } else { 0 };
                found[lane] = bound | noted.absent[lane] | excluded;
                least[lane] = least[lane].min(found[lane]);
            }
            *bounds = found;
        }
        least.into_iter().filter(|&bound| bound != NEVER).min()
    }
}

#[cfg(test)]
mod tests;
