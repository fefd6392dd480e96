//! Where a queued bio came from: the remap that was traced shortly before its Q.

use crate::event::{DeviceId, Event};
use std::collections::VecDeque;

/// Remaps that may wait for their Q: a task can be preempted, and moved to another CPU, between the two.
const WAITING: usize = 64;

#[derive(Clone, Copy)]
struct Remap {
    device: DeviceId,
    sector: u64,
    bytes: u32,
    source: DeviceId,
}

/// Remaps not yet matched to a Q, the latest last.
#[derive(Default)]
pub struct Remaps(VecDeque<Remap>);

impl Remaps {
    /// Takes in a remap (A).
    pub fn remap(&mut self, event: &Event) {
        // The remap of a partition to its disk follows the one that led to the partition: that tells the source.
        let within_disk = event.target_device == event.device;
        let led_here = |r: &Remap| {
            r.device == event.arg_device && r.sector == event.arg_sector && r.bytes == event.bytes
        };
        let source = match self.0.iter().rposition(led_here).filter(|_| within_disk) {
            Some(at) => self.0.remove(at).map_or(event.arg_device, |earlier| earlier.source),
            None => event.arg_device,
        };
        if self.0.len() == WAITING {
            self.0.pop_front();
        }
        self.0.push_back(Remap { device: event.device, sector: event.sector, bytes: event.bytes, source });
    }

    /// The source of a queued bio (Q); the null device when nothing was remapped to it.
    #[inline]
    pub fn source_of(&mut self, event: &Event) -> DeviceId {
        let fits = |r: &Remap| r.device == event.device && r.sector == event.sector && r.bytes == event.bytes;
        match self.0.iter().rposition(fits) {
            Some(at) => self.0.remove(at).map_or(DeviceId(0), |remap| remap.source),
            None => DeviceId(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remap(to: (u32, u64), from: (u32, u64)) -> Event {
        Event {
            device: DeviceId(to.0),
            target_device: DeviceId(to.0),
            sector: to.1,
            bytes: 4096,
            arg_device: DeviceId(from.0),
            arg_sector: from.1,
            ..Event::default()
        }
    }

    fn queue(device: u32, sector: u64) -> Event {
        Event { device: DeviceId(device), sector, bytes: 4096, ..Event::default() }
    }

    #[test]
    fn a_bio_comes_from_its_own_remap_though_another_came_between() {
        let mut remaps = Remaps::default();
        remaps.remap(&remap((9, 100), (253, 0)));
        remaps.remap(&remap((9, 500), (254, 0)));
        assert_eq!(remaps.source_of(&queue(9, 100)), DeviceId(253));
        assert_eq!(remaps.source_of(&queue(9, 500)), DeviceId(254));
        assert_eq!(remaps.source_of(&queue(9, 500)), DeviceId(0));
    }

    #[test]
    fn through_a_partition_the_source_is_what_lies_above_it() {
        let mut remaps = Remaps::default();
        remaps.remap(&remap((81, 100), (253, 0)));
        remaps.remap(&remap((80, 2148), (81, 100)));
        assert_eq!(remaps.source_of(&queue(80, 2148)), DeviceId(253));
    }
}
