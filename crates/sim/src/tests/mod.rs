//! Cells for tests: throttled disks, arrays of them, jobs.

mod any_stack;
mod journal;

use crate::build::build_simulation;
use crate::cell::{Cell, Job, Level, Md, Node, ThrottledSpec};
use crate::outcome::Outcome;
use crate::targets::TargetReport;
use crate::targets::md::MdReport;
use serde_json::{Value, json};

/// A member's size.
pub const MEMBER: u64 = 64 << 20;

/// A disk that only throttles.
pub fn disk(index: usize, limits: &ThrottledSpec) -> Value {
    let mut model = serde_json::to_value(limits).unwrap();
    model["kind"] = json!("throttled");
    json!({
        "name": format!("d{index}"), "bytes": MEMBER, "model": model,
        "queue": {
            "scheduler": "none", "nr_requests": 256, "queue_depth": 256, "max_bytes": 1 << 20,
            "rotational": false, "wbt_lat_ns": 0, "write_back": false,
        },
    })
}

/// Disks with `iops_total` I/Os per second.
pub fn iops(iops_total: f64) -> ThrottledSpec {
    ThrottledSpec { iops_total, latency_ns: 20_000, ..ThrottledSpec::default() }
}

/// An array of the first `disks` disks with chunks of 64 KiB.
pub fn md(level: Level, disks: usize) -> Md {
    let level = serde_json::to_value(level).unwrap();
    let members: Vec<Value> = (0..disks).map(|n| json!({"node": {"device": n}})).collect();
    let md = json!({"name": "md0", "level": level, "chunk": 65536, "near": 2, "far": 1, "members": members});
    serde_json::from_value(md).unwrap()
}

/// Removes a member.
pub fn without(mut md: Md, slot: usize) -> Md {
    md.members[slot].node = None;
    md
}

/// Random writes of 4 KiB, 16 at a time.
pub fn job(size: u64, ios: u64) -> Job {
    let job = json!({
        "name": "job", "numjobs": 1, "read_share": 0.0, "random": true, "read_sizes": [[4096, 1.0]],
        "write_sizes": [[4096, 1.0]], "align": 4096, "offset": 0, "size": size, "io_bytes": ios * 4096,
        "iodepth": 16, "batch_submit": 1, "batch_complete_min": 1,
    });
    serde_json::from_value(job).unwrap()
}

/// The same job with reads.
pub fn reads(job: Job) -> Job {
    Job { read_share: 1.0, ..job }
}

/// A sequential job of `bytes` in blocks of this size, with a depth and a batch.
pub fn stream(bytes: u64, block: u32, iodepth: u32, batch: u32) -> Job {
    let sizes = vec![(block, 1.0)];
    Job {
        random: false,
        read_sizes: sizes.clone(),
        write_sizes: sizes,
        align: block,
        io_bytes: bytes,
        iodepth,
        batch_submit: batch,
        batch_complete_min: batch,
        ..job(bytes, 0)
    }
}

/// A cell of an array on equal disks.
pub fn cell(md: Md, limits: &ThrottledSpec, jobs: &[Job]) -> Cell {
    let devices: Vec<Value> = (0..md.members.len()).map(|n| disk(n, limits)).collect();
    let mut cell: Cell = serde_json::from_value(json!({
        "seed": 1, "kernel": "6.1", "devices": devices, "stack": {"device": 0},
    }))
    .unwrap();
    cell.stack = Node::Md(md);
    cell.jobs = jobs.to_vec();
    cell
}

/// Plays a cell, and checks that nothing is left behind.
pub fn play(cell: &Cell) -> Outcome {
    Outcome::new(build_simulation(cell, None).unwrap().play_and_check_idle())
}

/// The error of an impossible cell.
pub fn refusal(cell: &Cell) -> String {
    build_simulation(cell, None).err().expect("it must be refused").to_string()
}

/// Requests and sectors at all the disks: (reads, writes).
pub fn ios(outcome: &Outcome) -> (u64, u64) {
    outcome.devices.iter().fold((0, 0), |(r, w), d| (r + d.ios[0], w + d.ios[1]))
}

/// Pages of 4 KiB moved at all the disks: (read, written).
pub fn pages(outcome: &Outcome) -> (u64, u64) {
    outcome.devices.iter().fold((0, 0), |(r, w), d| (r + d.sectors[0] / 8, w + d.sectors[1] / 8))
}

/// The report of the array on top of the stack.
pub fn array(outcome: &Outcome) -> &MdReport {
    match outcome.targets.last() {
        Some(TargetReport::Md(report)) => report,
        other => panic!("{other:?}"),
    }
}
