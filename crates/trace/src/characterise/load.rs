//! The load: operations, bytes, flags and request sizes; by CPU, by process and by source device.

use super::chunk::{Chunk, Panel, ProfiledDevice, QueuedIo, Renumbering};
use crate::event::{DeviceId, Op, Rwbs};
use crate::io::NEVER;
use blklab_stats::{Hashing, Merge, Quantiles, QuantilesSummary, SizeHistogram, SizeSummary, merge_fields};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

const MAX_GROUPS: usize = 512; // The largest number of groups on one device; further ones are counted together

/// Counts of one operation's arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct OpCounts {
    /// I/Os queued.
    pub ios: u64,
    /// Bytes of the I/Os queued.
    pub bytes: u64,
    /// I/Os that are synchronous (flag S).
    pub sync: u64,
    /// I/Os of a filesystem's metadata (flag M).
    pub meta: u64,
    /// I/Os that are read-ahead (flag A).
    pub ahead: u64,
    /// I/Os with forced unit access (flag F after the operation).
    pub fua: u64,
    /// I/Os with a flush of the disk's cache before them (flag F before the operation).
    pub preflush: u64,
    /// I/Os that do not begin and end at a multiple of 4 KiB.
    pub unaligned: u64,
    /// I/Os whose length is a multiple of 4 KiB, by the first sector modulo 8: where their blocks begin.
    pub block_starts: [u64; 8],
}

impl OpCounts {
    fn add(&mut self, row: &QueuedIo) {
        self.ios += 1;
        self.bytes += u64::from(row.bytes);
        self.sync += u64::from(row.rwbs.has(Rwbs::SYNC));
        self.meta += u64::from(row.rwbs.has(Rwbs::META));
        self.ahead += u64::from(row.rwbs.has(Rwbs::AHEAD));
        self.fua += u64::from(row.rwbs.has(Rwbs::FUA));
        self.preflush += u64::from(row.rwbs.has(Rwbs::FLUSH));
        self.unaligned += u64::from(!(row.sector | row.sectors()).is_multiple_of(8));
        if row.bytes > 0 && row.sectors().is_multiple_of(8) {
            self.block_starts[(row.sector % 8) as usize] += 1;
        }
    }
}

merge_fields!(OpCounts: ios, bytes, sync, meta, ahead, fua, preflush, unaligned, block_starts);

/// Arrivals and response times of one group (a CPU, a process, a source).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupLoad {
    ops: [(u64, u64); 4],
    q2c: [Quantiles; 2],
    errors: u64,
}

merge_fields!(GroupLoad: ops, q2c, errors);

/// The I/Os of a CPU, of a process, or from a device.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct GroupProfile {
    /// Number of the CPU, name of the process, or `major,minor` of the device; `direct`: not remapped; `(others)`: all
    /// beyond 512.
    pub name: String,
    /// I/Os queued, by operation.
    pub ios: BTreeMap<&'static str, u64>,
    /// Bytes queued, by operation.
    pub bytes: BTreeMap<&'static str, u64>,
    /// Q2C of reads, in ns.
    pub read_q2c_ns: QuantilesSummary,
    /// Q2C of everything else, in ns.
    pub write_q2c_ns: QuantilesSummary,
    /// I/Os that ended with an error.
    pub errors: u64,
}

impl GroupLoad {
    fn add(&mut self, op: Op, bytes: u32) {
        let cell = &mut self.ops[op as usize];
        cell.0 += 1;
        cell.1 += u64::from(bytes);
    }

    fn profile(&self, name: String) -> GroupProfile {
        let by = |pick: fn(&(u64, u64)) -> u64| {
            Op::ALL.iter().map(|&op| (op.name(), pick(&self.ops[op as usize]))).collect()
        };
        GroupProfile {
            name,
            ios: by(|cell| cell.0),
            bytes: by(|cell| cell.1),
            read_q2c_ns: self.q2c[0].summary(),
            write_q2c_ns: self.q2c[1].summary(),
            errors: self.errors,
        }
    }
}

/// Groups by number.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u32, GroupLoad)>")]
struct GroupTable {
    #[serde(skip)]
    index: HashMap<u32, u32, Hashing>,
    groups: Vec<(u32, GroupLoad)>,
}

impl TryFrom<Vec<(u32, GroupLoad)>> for GroupTable {
    type Error = &'static str;

    fn try_from(groups: Vec<(u32, GroupLoad)>) -> Result<Self, Self::Error> {
        let index: HashMap<u32, u32, Hashing> = (0..).zip(&groups).map(|(at, (key, _))| (*key, at)).collect();
        let is_valid = groups.len() <= MAX_GROUPS + 1 && index.len() == groups.len();
        is_valid.then_some(GroupTable { index, groups }).ok_or("not the groups of a load")
    }
}

impl GroupTable {
    const OTHERS: u32 = u32::MAX; // The key of all groups beyond [`MAX_GROUPS`]

    fn at(&mut self, key: u32) -> &mut GroupLoad {
        let at = match self.index.get(&key) {
            Some(&at) => at,
            None => {
                let kept = if self.groups.len() >= MAX_GROUPS { Self::OTHERS } else { key };
                *self.index.entry(kept).or_insert_with(|| {
                    self.groups.push((kept, GroupLoad::default()));
                    (self.groups.len() - 1) as u32
                })
            }
        };
        &mut self.groups[at as usize].1
    }

    /// Gives its groups other numbers; groups whose numbers become equal are merged.
    fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        for (key, group) in std::mem::take(self).groups {
            self.at(if key == Self::OTHERS { key } else { number(key) }).merge(&group);
        }
    }

    fn profile(&self, name: impl Fn(u32) -> String) -> Vec<GroupProfile> {
        let mut out: Vec<GroupProfile> = self
            .groups
            .iter()
            .map(|(key, group)| group.profile(if *key == Self::OTHERS { "(others)".into() } else { name(*key) }))
            .collect();
        out.sort_by_key(|g| std::cmp::Reverse((g.ios.values().sum::<u64>(), g.bytes.values().sum::<u64>())));
        out
    }
}

impl Merge for GroupTable {
    fn merge(&mut self, other: &Self) {
        other.groups.iter().for_each(|(key, group)| self.at(*key).merge(group));
    }
}

/// The load on a device.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Load {
    counts: [OpCounts; 4],
    span: Option<(u64, u64)>, // First sector read or written, and one past the last
    sizes: [SizeHistogram; 3],
    cpus: GroupTable,
    processes: GroupTable,
    sources: GroupTable,
}

/// The load of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct OpLoadProfile {
    /// Counts.
    #[serde(flatten)]
    pub counts: OpCounts,
    /// Share of all I/Os queued on the device, 0 to 1.
    pub share_of_ios: f64,
    /// Share of all bytes queued on the device, 0 to 1.
    pub share_of_bytes: f64,
    /// Sizes of the I/Os; flushes have none.
    pub sizes: SizeSummary,
}

/// The load of one device.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct LoadProfile {
    /// The load by operation: `read`, `write`, `discard`, `flush`.
    pub ops: BTreeMap<&'static str, OpLoadProfile>,
    /// First sector read or written; `null` if there was none.
    pub first_sector: Option<u64>,
    /// The sector after the last one read or written; `null` if there was none.
    pub end_sector: Option<u64>,
    /// I/Os by the CPU that queued them, the largest number first; at most 512, and `(others)`. The quantiles of CPUs
    /// can be empty.
    pub cpus: Vec<GroupProfile>,
    /// I/Os by the process that queued them, the largest number first; at most 512, and `(others)`.
    pub processes: Vec<GroupProfile>,
    /// I/Os by the device that they were remapped from (`direct`: none), the largest number first; at most 512, and
    /// `(others)`.
    pub sources: Vec<GroupProfile>,
}

impl Load {
    /// I/Os queued.
    pub fn ios(&self) -> u64 {
        self.counts.iter().map(|counts| counts.ios).sum()
    }

    fn widen(&mut self, first: u64, end: u64) {
        let (low, high) = self.span.get_or_insert((first, end));
        *low = first.min(*low);
        *high = end.max(*high);
    }

    /// Whether more than half of its I/Os were remapped from these devices.
    pub fn is_fed_by(&self, devices: &[DeviceId]) -> bool {
        let ios = |(_, group): &(u32, GroupLoad)| group.ops.iter().map(|cell| cell.0).sum::<u64>();
        let fed = self.sources.groups.iter().filter(|(source, _)| devices.contains(&DeviceId(*source)));
        2 * fed.map(ios).sum::<u64>() > self.sources.groups.iter().map(ios).sum()
    }
}

impl Panel for Load {
    type Profile = LoadProfile;

    fn renumber(&mut self, numbers: &Renumbering) {
        self.processes.renumber(|process| numbers.process(process));
        self.sources.renumber(|source| numbers.device(DeviceId(source)).0);
    }

    fn observe(&mut self, chunk: &Chunk) {
        for row in &chunk.queued {
            let op = row.op();
            self.counts[op as usize].add(row);
            if let Some(sizes) = self.sizes.get_mut(op as usize) {
                sizes.record(row.bytes);
            }
            if matches!(op, Op::Read | Op::Write) {
                self.widen(row.sector, row.sector.saturating_add(row.sectors()));
            }
            self.cpus.at(u32::from(row.cpu)).add(op, row.bytes);
            self.processes.at(row.process).add(op, row.bytes);
            self.sources.at(row.source.0).add(op, row.bytes);
        }
        for io in &chunk.ended {
            if io.t_queue == NEVER || io.t_complete == NEVER {
                continue;
            }
            let time = io.t_complete.saturating_sub(io.t_queue);
            let side = usize::from(io.op() != Op::Read);
            let error = u64::from(io.error != 0);
            for group in [self.processes.at(io.process), self.sources.at(io.source.0)] {
                group.q2c[side].record(time);
                group.errors += error;
            }
        }
    }

    fn profile(&self, device: &ProfiledDevice) -> LoadProfile {
        let total_bytes: u64 = self.counts.iter().map(|a| a.bytes).sum();
        let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let none = SizeHistogram::default();
        let ops = Op::ALL.iter().map(|&op| {
            let counts = self.counts[op as usize];
            let profile = OpLoadProfile {
                counts,
                share_of_ios: share(counts.ios, self.ios()),
                share_of_bytes: share(counts.bytes, total_bytes),
                sizes: self.sizes.get(op as usize).unwrap_or(&none).summary(),
            };
            (op.name(), profile)
        });
        LoadProfile {
            first_sector: self.span.map(|(first, _)| first),
            end_sector: self.span.map(|(_, end)| end),
            ops: ops.collect(),
            cpus: self.cpus.profile(|cpu| cpu.to_string()),
            processes: self.processes.profile(device.process),
            sources: self.sources.profile(|source| match source {
                0 => "direct".into(),
                number => DeviceId(number).to_string(),
            }),
        }
    }
}

impl Merge for Load {
    fn merge(&mut self, other: &Self) {
        if let Some((first, end)) = other.span {
            self.widen(first, end);
        }
        self.counts.merge(&other.counts);
        self.sizes.merge(&other.sizes);
        self.cpus.merge(&other.cpus);
        self.processes.merge(&other.processes);
        self.sources.merge(&other.sources);
    }
}
