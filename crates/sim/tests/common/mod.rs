//! Cells for tests: small ones, of every kind of disk, scheduler and array.

use blklab_sim::cell::Cell;
use serde_json::{Value, json};

/// A disk: `sata`, `nvme`, `hdd` or `slow`, with a scheduler.
pub fn device(kind: &str, scheduler: &str) -> Value {
    let flash = |kind: &str, commands: [u32; 2], bandwidth: [u64; 2], latencies: [u32; 2], units: u32| {
        json!({
            "kind": kind, "read_command_ns": commands[0], "write_command_ns": commands[1],
            "read_bandwidth": bandwidth[0], "write_bandwidth": bandwidth[1],
            "read_latency_ns": latencies[0], "write_latency_ns": latencies[1],
            "units": units, "page_bytes": 16384, "page_read_ns": 60000,
            "program_bytes": 65536, "program_ns": 700_000, "buffer_bytes": 67_108_864, "suspend_ns": 100_000,
        })
    };
    let (model, tags, depth, rotational) = match kind {
        "sata" => {
            let bandwidth = [570_000_000, 533_000_000];
            (flash("ssd", [3_000, 3_900], bandwidth, [30_000, 20_000], 64), 64, 32, false)
        }
        "nvme" => {
            let bandwidth = [3_200_000_000, 2_000_000_000];
            (flash("nvme", [1_650, 1_900], bandwidth, [20_000, 12_000], 128), 1023, 1023, false)
        }
        "hdd" => {
            let model = json!({
                "kind": "hdd", "capacity": 500_107_862_016_u64, "rpm": 7200,
                "outer_track_bytes": 600_000, "inner_track_bytes": 300_000, "heads": 6,
                "seek_track_ns": 1_000_000, "seek_average_ns": 8_200_000, "seek_full_ns": 16_000_000,
                "command_ns": 100_000, "bandwidth": 200_000_000, "cache_bytes": 16_777_216,
                "read_streams": 8, "read_ahead_bytes": 1_048_576, "write_cache": true,
                "write_cache_requests": 64, "flush_ns": 0, "destage_ns": 0,
            });
            (model, 64, 32, true)
        }
        "slow" => (json!({"kind": "throttled", "iops_total": 1000.0, "latency_ns": 50_000}), 64, 32, true),
        _ => panic!("{kind}"),
    };
    json!({
        "name": kind, "bytes": 10_737_418_240_u64, "model": model,
        "queue": {
            "scheduler": scheduler, "nr_requests": tags, "queue_depth": depth, "max_bytes": 1_310_720,
            "rotational": rotational, "wbt_lat_ns": if rotational { 75_000_000 } else { 2_000_000 },
            "write_back": kind != "nvme",
        },
    })
}

/// An array over the first `members` devices; `shape` is its level, chunk and layout.
pub fn array(members: usize, shape: Value) -> Value {
    let slots: Vec<Value> = (0..members).map(|index| json!({"node": {"device": index}})).collect();
    let mut md = json!({"name": "md0", "members": slots});
    md.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
    json!({"md": md})
}

/// Jobs with this share of reads.
pub fn job(read_share: f64, random: bool, more: Value) -> Value {
    let mut job = json!({
        "name": "job", "numjobs": 4, "read_share": read_share, "random": random,
        "read_sizes": [[4096, 1.0]], "write_sizes": [[4096, 1.0]], "align": 4096,
        "offset": 0, "size": 8_589_934_592_u64, "io_bytes": 8_589_934_592_u64,
        "iodepth": 32, "batch_submit": 1, "batch_complete_min": 1,
    });
    job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job
}

/// A complete cell.
pub fn cell(kernel: &str, devices: &[Value], stack: Value, jobs: &[Value], more: Value) -> Cell {
    let mut cell = json!({"seed": 1, "kernel": kernel, "devices": devices, "stack": stack, "jobs": jobs});
    cell.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(cell).unwrap()
}
