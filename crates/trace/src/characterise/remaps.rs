//! The source of a queued bio: the remap that was traced shortly before its Q.

use crate::event::{DeviceId, Event};
use std::collections::{HashMap, VecDeque};

/// Remaps that can wait for their Q: a plug holds many bios, and between the two events a task can be preempted and
/// moved to another CPU.
const WAITING: usize = 1 << 15;

/// The target of a bio: device, sector, bytes.
type RemapTarget = (DeviceId, u64, u32);

/// Remaps not yet matched to a Q.
#[derive(Default)]
pub struct Remaps {
    /// The latest remap and its source; nearly always the one that is needed.
    latest: Option<(RemapTarget, DeviceId)>,
    /// The sources of earlier remaps, the latest last.
    waiting: HashMap<RemapTarget, Vec<DeviceId>>,
    /// The earlier remaps in order; some can have been matched since.
    order: VecDeque<RemapTarget>,
}

impl Remaps {
    /// Adds a remap (A).
    pub fn remap(&mut self, event: &Event) {
        // The remap of a partition to its disk follows the one to the partition, which has the source.
        let within_disk = event.target_device == event.device;
        let led_here = (event.arg_device, event.arg_sector, event.bytes);
        let earlier = if within_disk { self.take(led_here) } else { None };
        let target = (event.device, event.sector, event.bytes);
        if let Some((target, source)) = self.latest.replace((target, earlier.unwrap_or(event.arg_device))) {
            self.keep(target, source);
        }
    }

    /// The source of a queued bio (Q); the null device if nothing was remapped to it.
    #[inline]
    pub fn source_of(&mut self, event: &Event) -> DeviceId {
        self.take((event.device, event.sector, event.bytes)).unwrap_or_default()
    }

    #[inline]
    fn take(&mut self, target: RemapTarget) -> Option<DeviceId> {
        match self.latest {
            Some((latest, source)) if latest == target => {
                self.latest = None;
                Some(source)
            }
            _ if self.waiting.is_empty() => None,
            _ => self.take_waiting(target),
        }
    }

    fn take_waiting(&mut self, target: RemapTarget) -> Option<DeviceId> {
        let sources = self.waiting.get_mut(&target)?;
        let source = sources.pop();
        if sources.is_empty() {
            self.waiting.remove(&target);
        }
        source
    }

    fn keep(&mut self, target: RemapTarget, source: DeviceId) {
        self.waiting.entry(target).or_default().push(source);
        self.order.push_back(target);
        if self.order.len() > WAITING
            && let Some(oldest) = self.order.pop_front()
            && let Some(sources) = self.waiting.get_mut(&oldest)
        {
            sources.remove(0);
            if sources.is_empty() {
                self.waiting.remove(&oldest);
            }
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
    fn a_plug_may_hold_hundreds() {
        let mut remaps = Remaps::default();
        (0..500).for_each(|n| remaps.remap(&remap((9, n * 8), (253, n))));
        assert!((0..500).all(|n| remaps.source_of(&queue(9, n * 8)) == DeviceId(253)));
    }

    #[test]
    fn unmatched_remaps_are_forgotten() {
        let mut remaps = Remaps::default();
        (0..100_000).for_each(|n| remaps.remap(&remap((9, n * 8), (253, n))));
        assert!(remaps.waiting.len() <= WAITING);
    }

    #[test]
    fn the_source_of_a_remap_through_a_partition_is_the_volume_above_it() {
        let mut remaps = Remaps::default();
        remaps.remap(&remap((81, 100), (253, 0)));
        remaps.remap(&remap((80, 2148), (81, 100)));
        assert_eq!(remaps.source_of(&queue(80, 2148)), DeviceId(253));
    }
}
