//! The commands that wait for the mechanism of a rotating disk, and the one that it executes first.

use crate::device::geometry::{DiskPosition, Geometry, fraction};
use crate::device::{CommandOrder, DiskCommand};
use crate::events::Time;

#[derive(Clone, Copy, Debug)]
pub struct QueuedCommand {
    pub command: DiskCommand,
    pub position: DiskPosition,
    pub batch: u32,
    pub arrival: u64,
    pub ready: Time, // When the controller passes it on
}

/// Where a command begins, for the search by angle.
#[derive(Clone, Copy, Debug)]
struct Angle {
    angle: f64,
    cylinder: f64,
    index: u32,
}

/// Commands in no order.
#[derive(Debug, Default)]
pub struct CommandQueue {
    commands: Vec<QueuedCommand>,
    ends: Vec<u64>, // The byte behind each
    order: CommandOrder,
    sorted: bool,         // Whether the next two are in use
    tracks: Vec<f64>,     // Of the commands
    by_angle: Vec<Angle>, // In ascending order
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

/// An angle is known to less than this, in ns: a run of 10¹⁵ ns has 10⁸ revolutions of 10⁷ ns, in 53 bits.
const ANGLE_ERROR: f64 = 1000.0;

impl CommandQueue {
    /// An empty queue of a disk whose data can move or not.
    pub fn new(order: CommandOrder, moving: bool) -> Self {
        Self { order, sorted: order == CommandOrder::Rotation && !moving, ..Self::default() }
    }

    pub fn push(&mut self, queued: QueuedCommand) {
        if self.sorted {
            let DiskPosition { angle, cylinder, track, .. } = queued.position;
            let at = self.by_angle.partition_point(|other| other.angle < angle);
            self.by_angle.insert(at, Angle { angle, cylinder, index: self.commands.len() as u32 });
            self.tracks.push(track);
        }
        self.ends.push(queued.command.byte + u64::from(queued.command.bytes));
        self.commands.push(queued);
    }

    pub fn swap_remove(&mut self, index: usize) -> QueuedCommand {
        if self.sorted {
            self.by_angle.remove(self.index_by_angle(index));
            let last = self.commands.len() - 1;
            if index < last {
                let moved = self.index_by_angle(last);
                self.by_angle[moved].index = index as u32;
            }
            self.tracks.swap_remove(index);
        }
        self.ends.swap_remove(index);
        self.commands.swap_remove(index)
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
        &self, from: &Departure, without: Option<u32>, position_of: impl Fn(&QueuedCommand) -> DiskPosition,
    ) -> Option<(usize, Time)> {
        if self.sorted {
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

    /// The command that is reached first.
    ///
    /// The head passes the angle of a command once in a revolution. So the first command is the one with the next angle
    /// among those that a seek can reach until then. A seek to another track takes the shortest seek or longer.
    fn first_reached(&self, from: &Departure, without: Option<u32>) -> Option<(usize, Time)> {
        let Departure { geometry, head, now, overhead } = *from;
        let mut first: Option<(Time, usize)> = None;
        let mut consider = |index: usize| {
            let queued = &self.commands[index];
            if without != Some(queued.batch) {
                let candidate = (from.reach_time(queued, &queued.position), index);
                first = Some(first.map_or(candidate, |best| best.min(candidate)));
            }
            first.map_or(f64::INFINITY, |(time, _)| time as f64)
        };
        let mut best = f64::INFINITY;
        if self.tracks.iter().fold(false, |any, &track| any | (track == head.track)) {
            let same = self.tracks.iter().enumerate().filter(|&(_, &track)| track == head.track);
            same.for_each(|(index, _)| best = consider(index));
        }
        let least = overhead as f64 + geometry.track_seek - ANGLE_ERROR;
        let begin = fraction((now as f64 + least) / geometry.rotation); // The angle under the head then
        let (before, behind) = self.by_angle.split_at(self.by_angle.partition_point(|other| other.angle < begin));
        for revolution in 0..=geometry.seek_revolutions {
            for (others, turn) in [(behind, f64::from(revolution)), (before, f64::from(revolution + 1))] {
                for other in others {
                    let time = (turn + other.angle - begin) * geometry.rotation;
                    if best < least + time - ANGLE_ERROR {
                        return first.map(|(time, index)| (index, time));
                    }
                    if geometry.may_reach((other.cylinder - head.cylinder).abs(), time + ANGLE_ERROR) {
                        best = consider(other.index as usize);
                    }
                }
            }
        }
        first.map(|(time, index)| (index, time))
    }

    fn index_by_angle(&self, index: usize) -> usize {
        let angle = self.commands[index].position.angle;
        let first = self.by_angle.partition_point(|other| other.angle < angle);
        first + self.by_angle[first..].iter().take_while(|other| other.index as usize != index).count()
    }
}

#[cfg(test)]
mod tests;
