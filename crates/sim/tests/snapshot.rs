//! The results of some cells do not change when the simulator becomes faster or is rearranged.
//!
//! An intended change of results is visible here as well: `BLKLAB_SNAPSHOT=write cargo test -p blklab-sim --test
//! snapshot` writes them again, and the difference belongs into the commit.

mod common;

use blklab_sim::cell::Cell;
use blklab_sim::outcome::{Direction, Outcome, TargetReport};
use common::{array, cell, device, job};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

const FILE: &str = "tests/data/outcomes.json";

/// Cells by a unique name.
fn cells() -> Vec<(String, Cell)> {
    let mut cells = Vec::new();
    let bounded = || json!({"max_ios": 30_000});
    let mirror = || array(2, json!({"level": "raid1"}));
    let near = || array(2, json!({"level": "raid10", "chunk": 524_288, "near": 2, "far": 1}));
    let far = || array(2, json!({"level": "raid10", "chunk": 524_288, "near": 1, "far": 2}));
    let reads = || job(1.0, true, json!({}));
    let mixed = || job(0.4, true, json!({}));
    for kernel in ["3.2", "4.19", "6.1", "6.9"] {
        let disks = [device("nvme", "none"), device("sata", "mq-deadline")];
        let twins = [device("sata", "mq-deadline"), device("sata", "mq-deadline")];
        cells.push((format!("twins reads {kernel}"), cell(kernel, &twins, mirror(), &[reads()], bounded())));
        cells.push((format!("raid1 mixed {kernel}"), cell(kernel, &disks, mirror(), &[mixed()], bounded())));
        cells.push((format!("near reads {kernel}"), cell(kernel, &disks, near(), &[reads()], bounded())));
        cells.push((format!("far mixed {kernel}"), cell(kernel, &disks, far(), &[mixed()], bounded())));
    }
    for scheduler in ["none", "noop", "mq-deadline", "deadline", "cfq"] {
        let disks = [device("sata", scheduler), device("sata", scheduler), device("sata", scheduler)];
        let striped = array(3, json!({"level": "raid0", "chunk": 65_536}));
        let sizes = json!([[4096, 0.5], [12_288, 0.25], [262_144, 0.25]]);
        let jobs = [
            job(1.0, false, json!({"name": "readers", "read_sizes": sizes, "numjobs": 2})),
            job(0.0, false, json!({"name": "writers", "write_sizes": sizes, "numjobs": 2, "batch_submit": 8})),
        ];
        cells.push((format!("raid0 {scheduler}"), cell("4.19", &disks, striped, &jobs, bounded())));
    }
    let filesystem = json!({"max_ios": 6_000, "filesystem": {"commit_ns": 500_000_000}, "ramp_ns": 200_000_000});
    for kind in ["hdd", "slow"] {
        let disks = [device(kind, "mq-deadline"), device(kind, "mq-deadline")];
        let jobs = [job(0.5, true, json!({"fsync": 8, "iodepth_low": 16, "batch_complete_min": 4}))];
        cells.push((format!("{kind} with a journal"), cell("6.1", &disks, mirror(), &jobs, filesystem.clone())));
    }
    let disks = [device("hdd", "cfq"), device("hdd", "deadline")];
    let jobs = [
        job(1.0, false, json!({"name": "sequential", "numjobs": 1, "iodepth": 1, "batch_submit": 16})),
        job(0.7, true, json!({"name": "random", "thinktime_ns": 3_000_000, "rate_iops": 200.0})),
    ];
    let linear = array(2, json!({"level": "linear", "chunk": 65_536}));
    cells.push(("linear hdd".into(), cell("3.2", &disks, linear, &jobs, json!({"runtime_ns": 10_000_000_000_u64}))));
    cells
}

fn direction(direction: &Direction) -> Value {
    let clat = &direction.clat_ns.summary;
    json!([direction.total_ios, direction.io_bytes, clat.mean, clat.stddev, clat.p50, clat.p99, clat.max])
}

/// The figures that matter; not the whole document, which can gain fields.
fn figures(outcome: &Outcome) -> Value {
    let groups: Vec<Value> = outcome.groups.iter().map(|g| json!([direction(&g.read), direction(&g.write)])).collect();
    let devices: Vec<Value> = (outcome.devices.iter())
        .map(|d| json!([d.ios, d.merges, d.sectors, d.ticks_ns, d.flushes, d.flush_ns, d.busy_ns]))
        .collect();
    let arrays: Vec<Vec<[u64; 6]>> = (outcome.targets.iter())
        .map(|target| {
            let TargetReport::Md(md) = target else { panic!("{target:?}") };
            md.slots.iter().map(|s| [s.only, s.sequential, s.idlest, s.nearest, s.lowest, s.writes]).collect()
        })
        .collect();
    // The series is long, so only its FNV-1a hash is kept.
    let series = serde_json::to_string(&outcome.series).unwrap();
    let hash = series
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    json!({
        "runtime_ns": outcome.runtime_ns, "groups": groups, "devices": devices, "arrays": arrays,
        "series": format!("{hash:016x}"),
    })
}

#[test]
fn results_have_not_changed() {
    let mut outcomes = String::from("{\n");
    let cells = cells();
    for (index, (name, cell)) in cells.iter().enumerate() {
        let outcome = blklab_sim::run(cell).unwrap();
        let comma = if index + 1 < cells.len() { "," } else { "" };
        writeln!(outcomes, "{}: {}{comma}", json!(name), figures(&outcome)).unwrap();
    }
    outcomes.push_str("}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("BLKLAB_SNAPSHOT").is_some_and(|value| value == "write") {
        std::fs::write(&path, &outcomes).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    for (outcome, known) in outcomes.lines().zip(known.lines()) {
        assert_eq!(outcome, known);
    }
    assert_eq!(outcomes.lines().count(), known.lines().count());
}

#[test]
fn a_seed_gives_one_result() {
    for (name, mut cell) in cells().into_iter().step_by(3) {
        cell.max_ios = cell.max_ios.map(|ios| ios.min(5_000));
        let run = |cell: &Cell| serde_json::to_string(&blklab_sim::run(cell).unwrap()).unwrap();
        assert_eq!(run(&cell), run(&cell), "{name}");
        let first = run(&cell);
        cell.seed += 1;
        assert_ne!(first, run(&cell), "{name}: another seed must give another result");
    }
}
