//! The life of an I/O: the time between its events, by operation.

use super::chunk::{Chunk, Panel, ProfiledDevice};
use crate::event::{Op, StartAction};
use crate::io::{Io, NEVER};
use blklab_stats::{Merge, Quantiles, QuantilesSummary, merge_fields};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The stages of an I/O's life that are measured, named after blkparse's and btt's letters.
const STAGES: [&str; 8] = ["q2c", "q2d", "d2c", "q2g", "g2i", "i2d", "q2m", "m2d"];

/// The operations that are counted together; flushes are not.
const COUNTED: [Op; 3] = [Op::Read, Op::Write, Op::Discard];

/// The time of each of [`STAGES`]; [`NEVER`] if the trace does not show it.
fn stage_times(io: &Io, t_queue: u64) -> [u64; STAGES.len()] {
    let between = |from, to| Io::between(from, to).unwrap_or(NEVER);
    // Only for the bio that got the request: those merged into it have Q2M and M2D instead.
    let got = io.t_get != NEVER;
    [
        between(t_queue, io.t_complete),
        between(t_queue, io.t_dispatch),
        between(io.t_dispatch, io.t_complete),
        between(t_queue, io.t_get),
        between(io.t_get, io.t_insert),
        if got { between(io.t_insert, io.t_dispatch) } else { NEVER },
        between(t_queue, io.t_merge),
        between(io.t_merge, io.t_dispatch),
    ]
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct OpLife {
    stages: [Quantiles; STAGES.len()],
    completed: u64,
    completed_bytes: u64,
    merged: u64,
    requeued: u64,
    errors: BTreeMap<u16, u64>,
    never_completed: u64,
    without_queue: u64,
}

merge_fields!(OpLife: stages, completed, completed_bytes, merged, requeued, errors, never_completed, without_queue);

/// The life of I/Os on a device, by operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Life([OpLife; 4]);

impl Life {
    /// The median of Q2C, or of D2C in a recording without Q, of everything except flushes.
    pub fn p50(&self) -> Option<u64> {
        let of_stage = |stage: usize| {
            let mut all = Quantiles::default();
            COUNTED.iter().for_each(|&op| all.merge(&self.0[op as usize].stages[stage]));
            all.summary().p50
        };
        of_stage(0).or_else(|| of_stage(2))
    }
}

/// What became of the I/Os of one operation, and when.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct LifeProfile {
    /// I/Os with a queue and a completion event.
    pub completed: u64,
    /// Bytes of the I/Os with a queue and a completion event.
    pub completed_bytes: u64,
    /// Bios that were merged into another bio's request.
    pub merged: u64,
    /// How often a request was requeued after dispatch, counted for each bio.
    pub requeued: u64,
    /// Failed completions by errno: `"EIO (5)": 3`.
    pub errors: BTreeMap<String, u64>,
    /// I/Os that were queued, and not completed when the trace ended.
    pub never_completed: u64,
    /// I/Os that were dispatched without a queue event: pass-through commands, flushes of the driver, I/Os that were
    /// already in flight when the trace began.
    pub without_queue: u64,
    /// Time in each stage, in ns, by btt's letters: `q2c`, `q2d`, `d2c`, `q2g`, `g2i`, `i2d`, `q2m`, `m2d`. A stage
    /// that the trace does not show has count 0.
    pub latency_ns: BTreeMap<&'static str, QuantilesSummary>,
    /// Q2C, or D2C without queue events: lowest ns of a bin, ns at which it ends, number of I/Os. A factor of ten has
    /// ten bins.
    pub histogram: Vec<(u64, u64, u64)>,
}

impl OpLife {
    fn profile(&self) -> LifeProfile {
        let shown = if self.stages[0].count() > 0 { &self.stages[0] } else { &self.stages[2] };
        LifeProfile {
            completed: self.completed,
            completed_bytes: self.completed_bytes,
            merged: self.merged,
            requeued: self.requeued,
            errors: self.errors.iter().map(|(&e, &n)| (errno_name(e), n)).collect(),
            never_completed: self.never_completed,
            without_queue: self.without_queue,
            latency_ns: STAGES.iter().zip(&self.stages).map(|(name, q)| (*name, q.summary())).collect(),
            histogram: shown.log_buckets(10),
        }
    }
}

impl Panel for Life {
    type Profile = BTreeMap<&'static str, LifeProfile>;

    fn observe(&mut self, chunk: &Chunk) {
        for io in &chunk.ended {
            let op = &mut self.0[io.op() as usize];
            // Without Q, the time of the queueing is that of the dispatch.
            let t_queue = if chunk.start == StartAction::Q { io.t_queue } else { NEVER };
            for (quantiles, time) in op.stages.iter_mut().zip(stage_times(io, t_queue)) {
                if time != NEVER {
                    quantiles.record(time);
                }
            }
            op.merged += u64::from(io.t_merge != NEVER);
            op.requeued += u64::from(io.requeues);
            if io.error != 0 {
                *op.errors.entry(io.error).or_default() += 1;
            }
            if io.t_queue == NEVER {
                op.without_queue += 1;
            } else if io.t_complete == NEVER {
                op.never_completed += 1;
            } else {
                op.completed += 1;
                op.completed_bytes += u64::from(io.bytes);
            }
        }
    }

    fn profile(&self, _: &ProfiledDevice) -> Self::Profile {
        let mut all = OpLife::default();
        COUNTED.iter().for_each(|&op| all.merge(&self.0[op as usize]));
        let mut out: BTreeMap<_, _> = Op::ALL.iter().map(|&op| (op.name(), self.0[op as usize].profile())).collect();
        out.insert("all", all.profile());
        out
    }
}

merge_fields!(Life: 0);

/// The names of errors (asm-generic/errno-base.h, errno.h); the block layer uses only a few.
const ERRORS: &str = "EINTR 4 EIO 5 ENXIO 6 EAGAIN 11 ENOMEM 12 EBUSY 16 ENODEV 19 EINVAL 22 ENOSPC 28 EBADE 52 ENODATA 61 \
    ETIME 62 ENOLINK 67 EILSEQ 84 EOPNOTSUPP 95 ETIMEDOUT 110 EREMOTEIO 121";

/// The name of a completion's error.
fn errno_name(recorded: u16) -> String {
    let number = i32::from(recorded as i16).unsigned_abs().to_string();
    let words: Vec<&str> = ERRORS.split_whitespace().collect();
    let name = words.chunks(2).find(|word| word[1] == number);
    name.map_or_else(|| format!("errno {number}"), |word| format!("{} ({number})", word[0]))
}
