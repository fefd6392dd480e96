//! How long I/Os took by their size, and by the queue that they found.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use super::density::{DensityRow, latency_rows};
use crate::io::NEVER;
use blklab_stats::{LogLinear, Merge, checked};
use serde::{Deserialize, Serialize};

const DRAWN: usize = 16; // Devices that have maps: those of the largest traces would fill the document

type Sides = [LogLinear<3>; 2]; // Latencies of reads and of writes

/// Latencies in classes of size and of queue depth, each twice as high as the one before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct LatencyMaps {
    #[serde(skip)]
    left_out: bool,
    sizes: Vec<Sides>,
    depths: Vec<Sides>,
}

checked!(LatencyMaps, |maps| maps.sizes.len().max(maps.depths.len()) <= 1 + u64::BITS as usize);

impl Merge for LatencyMaps {
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in [(&mut self.sizes, &other.sizes), (&mut self.depths, &other.depths)] {
            mine.resize_with(mine.len().max(theirs.len()), Sides::default);
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.merge(theirs));
        }
    }
}

/// Latencies (Q2C, or D2C if the trace has no Q events) of reads and writes by class, for the first 16 devices. The
/// strings of a row have a character for each class instead of each slice of time.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct LatencyMapsProfile {
    /// By size: below 1 KiB, from 1 to below 2 KiB, and so on.
    pub sizes: Vec<DensityRow>,
    /// By the I/Os that were in flight when it was queued: none, 1, 2 to 3, 4 to 7, and so on.
    pub depths: Vec<DensityRow>,
}

fn digits(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

fn add(classes: &mut Vec<Sides>, class: usize, side: usize, time: u64) {
    if classes.len() <= class {
        classes.resize_with(class + 1, Sides::default);
    }
    classes[class][side].record(time);
}

impl Panel for LatencyMaps {
    type Profile = LatencyMapsProfile;

    fn for_device(index: usize) -> LatencyMaps {
        LatencyMaps { left_out: index >= DRAWN, ..LatencyMaps::default() }
    }

    fn observe(&mut self, chunk: &Chunk) {
        for io in chunk.ended.iter().filter(|_| !self.left_out) {
            if let Some((side, time)) = io.timed() {
                add(&mut self.sizes, digits(u64::from(io.bytes >> 10)), side, time);
                if io.t_queue != NEVER {
                    add(&mut self.depths, digits(u64::from(io.depth)), side, time);
                }
            }
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> LatencyMapsProfile {
        LatencyMapsProfile { sizes: latency_rows(self.sizes.iter()), depths: latency_rows(self.depths.iter()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{DeviceId, Rwbs};
    use crate::io::Io;

    #[test]
    fn classes_double() {
        let io = |bytes, depth, took: u64| Io {
            bytes,
            depth,
            rwbs: Rwbs::READ,
            t_queue: 100,
            t_complete: 100 + took,
            ..crate::pair::new_io(&crate::event::Event { device: DeviceId(1), ..Default::default() })
        };
        let mut maps = LatencyMaps::default();
        let ended = vec![io(512, 0, 1000), io(4096, 3, 1000), io(8191, 4, 1000), io(8192, 4, 9000)];
        maps.observe(&Chunk { ended, ..Chunk::default() });
        let profile = maps.profile(&ProfiledDevice { number: "1", name: None, p50: None, process: &|_| String::new() });
        let texts = |rows: &[DensityRow]| rows.iter().map(|row| row.read_levels.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&profile.sizes), ["1..2", "....1"]);
        assert_eq!(texts(&profile.depths), ["1.11", "...1"]);
    }
}
