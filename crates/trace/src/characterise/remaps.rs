//! The source of a queued bio: the remap that was traced shortly before its Q.

use crate::event::{DeviceId, Event};
use std::collections::{HashMap, VecDeque};

/// Remaps that can wait for their Q: a plug holds many bios, and between the two events a task can be preempted and
/// moved to another CPU.
const WAITING: usize = 1 << 15;

type RemapTarget = (DeviceId, u64, u32); // The target of a bio: device, sector, bytes

/// Remaps not yet matched to a Q.
#[derive(Default)]
pub struct Remaps {
    latest: Option<(RemapTarget, DeviceId)>, // The latest remap and its source; nearly always the one that is needed
    waiting: HashMap<RemapTarget, Vec<DeviceId>>, // The sources of earlier remaps, the latest last
    order: VecDeque<RemapTarget>,            // The earlier remaps in order; some can have been matched since
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
    pub fn source_of(&mut self, event: &Event) -> DeviceId {
        self.take((event.device, event.sector, event.bytes)).unwrap_or_default()
    }

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
mod tests;
