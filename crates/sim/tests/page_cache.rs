//! Reads through the page cache, with read-ahead.

mod common;

use blklab_sim::outcome::Outcome;
use common::{array, cell, device, job};
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;

fn reader(buffered: bool, bytes: u32) -> Value {
    job(
        1.0,
        false,
        json!({
            "name": "reader", "numjobs": 1, "iodepth": 1, "buffered": buffered, "io_bytes": 1_u64 << 50,
            "read_sizes": [[bytes, 1.0]],
        }),
    )
}

fn run(kernel: &str, disks: usize, stack: Value, jobs: &[Value], more: Value) -> Outcome {
    run_on("hdd", kernel, disks, stack, jobs, more)
}

fn run_on(kind: &str, kernel: &str, disks: usize, stack: Value, jobs: &[Value], more: Value) -> Outcome {
    let mut options = json!({"runtime_ns": 10 * SECOND});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let scheduler = if kind == "hdd" { "deadline" } else { "none" };
    let devices: Vec<Value> = (0..disks).map(|_| device(kind, scheduler)).collect();
    blklab_sim::run(&cell(kernel, &devices, stack, jobs, options)).unwrap()
}

fn striped() -> Value {
    array(4, json!({"level": "raid0", "chunk": 65_536}))
}

fn mean_request(outcome: &Outcome) -> u64 {
    let disk = &outcome.devices[0];
    disk.sectors[0] * 512 / disk.ios[0]
}

#[test]
fn larger_windows_make_a_striped_array_faster() {
    let rates: Vec<f64> = [4_u64, 128, 1024, 8192]
        .iter()
        .map(|kib| {
            let read_ahead = json!({"read_ahead_bytes": kib << 10});
            let second = json!({"runtime_ns": SECOND});
            let mut options = read_ahead.as_object().unwrap().clone();
            options.extend(second.as_object().unwrap().clone());
            run_on("sata", "6.1", 4, striped(), &[reader(true, 4096)], Value::Object(options)).read.bw_bytes
        })
        .collect();
    assert!(rates.is_sorted(), "{rates:?}");
    // A window of 128 KiB is on two of the four disks.
    assert!(rates[2] > 1.5 * rates[1] && rates[1] > 4.0 * rates[0], "{rates:?}");
}

#[test]
fn without_read_ahead_a_read_is_a_direct_read_of_each_page() {
    let none = json!({"read_ahead_bytes": 0});
    let buffered = run("6.1", 1, json!({"device": 0}), &[reader(true, 65_536)], none);
    let direct = run("6.1", 1, json!({"device": 0}), &[reader(false, 4096)], json!({}));
    assert_eq!((mean_request(&buffered), mean_request(&direct)), (4096, 4096));
    let ratio = buffered.read.bw_bytes / direct.read.bw_bytes;
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn the_default_window_is_two_stripes() {
    // 4 × 64 KiB, twice: `disk_update_readahead`. A single disk has 128 KiB.
    let default = run("6.1", 4, striped(), &[reader(true, 4096)], json!({}));
    let stripes = run("6.1", 4, striped(), &[reader(true, 4096)], json!({"read_ahead_bytes": 524_288}));
    assert_eq!(default.read.bw_bytes, stripes.read.bw_bytes);
    let single = run("6.1", 1, json!({"device": 0}), &[reader(true, 4096)], json!({}));
    assert!((120 << 10..=128 << 10).contains(&mean_request(&single)), "{}", mean_request(&single));
}

#[test]
fn advice_doubles_the_window() {
    let mut advised = reader(true, 4096);
    advised["fadvise_sequential"] = json!(true);
    let doubled = run("6.1", 1, json!({"device": 0}), &[advised], json!({}));
    assert!((240 << 10..=256 << 10).contains(&mean_request(&doubled)), "{}", mean_request(&doubled));
}

#[test]
fn a_stream_next_to_random_reads_keeps_its_large_requests() {
    let random = job(1.0, true, json!({"name": "random", "io_bytes": 1_u64 << 50, "numjobs": 16, "iodepth": 1}));
    let rate = |kib: u64| {
        let jobs = [reader(true, 65_536), random.clone()];
        let outcome = run("3.2", 4, striped(), &jobs, json!({"read_ahead_bytes": kib << 10}));
        outcome.groups[0].read.bw_bytes
    };
    let (small, large) = (rate(128), rate(8192));
    assert!(large > 5.0 * small, "{small} {large}");
}

#[test]
fn a_reader_reads_its_region_and_stops() {
    let mut finite = reader(true, 65_536);
    finite["io_bytes"] = json!(10 << 20);
    finite["size"] = json!(4 << 20); // Two and a half times
    let outcome = run("6.1", 4, striped(), &[finite], json!({"read_ahead_bytes": 1 << 20}));
    assert_eq!(outcome.read.io_bytes, 10 << 20);
    let sectors: u64 = outcome.devices.iter().map(|disk| disk.sectors[0]).sum();
    assert!((20_480..=24_576).contains(&sectors), "{sectors}"); // At most to the end of the region
}

#[test]
fn other_buffered_jobs_are_errors() {
    let mut random = reader(true, 4096);
    random["random"] = json!(true);
    let devices = [device("hdd", "deadline")];
    let error = blklab_sim::run(&cell("6.1", &devices, json!({"device": 0}), &[random], json!({}))).unwrap_err();
    assert!(error.to_string().contains("buffered: expected sequential reads"), "{error}");
}

fn writer(size: u64, more: Value) -> Value {
    let mut writer = json!({
        "name": "writer", "numjobs": 1, "iodepth": 1, "buffered": true, "size": size, "io_bytes": size,
        "write_sizes": [[65_536, 1.0]],
    });
    writer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    job(0.0, false, writer)
}

fn limits() -> Value {
    json!({"runtime_ns": 100 * SECOND, "dirty_bytes": 64 << 20, "dirty_background_bytes": 16 << 20})
}

#[test]
fn few_writes_stay_in_the_page_cache() {
    let outcome = run("6.1", 1, json!({"device": 0}), &[writer(8 << 20, json!({}))], limits());
    assert!(outcome.read.bw_bytes == 0.0 && outcome.write.bw_bytes > 1e9, "{}", outcome.write.bw_bytes);
    assert_eq!(outcome.devices[0].ios[1], 0);
}

#[test]
fn more_writes_go_at_the_rate_of_the_disk() {
    let outcome = run("6.1", 1, json!({"device": 0}), &[writer(1 << 30, json!({}))], limits());
    let direct = json!({"buffered": false, "write_sizes": [[1 << 20, 1.0]], "iodepth": 4});
    let rate = run("6.1", 1, json!({"device": 0}), &[writer(1 << 30, direct)], limits()).write.bw_bytes;
    // All but what is dirty at the end: at most the limit.
    let share = outcome.write.bw_bytes / rate;
    assert!((1.0..1.1).contains(&share), "{share}");
    let disk = &outcome.devices[0];
    assert!(disk.sectors[1] * 512 / disk.ios[1] > 512 << 10, "{}", disk.sectors[1] * 512 / disk.ios[1]);
}

#[test]
fn old_dirty_pages_are_written_below_the_limits() {
    let slow = json!({"rate_iops": 1.0, "io_bytes": 60 * 65_536, "size": 60 * 65_536});
    let outcome = run("6.1", 1, json!({"device": 0}), &[writer(0, slow)], limits());
    assert!(outcome.devices[0].sectors[1] > 0);
    assert!(outcome.write.clat_ns.summary.max.unwrap_or(0) < 1_000_000);
}

#[test]
fn whole_stripes_are_written_to_arrays_with_parity() {
    let stack = array(4, json!({"level": "raid5", "chunk": 65_536}));
    let outcome = run("6.1", 4, stack, &[writer(1 << 30, json!({}))], limits());
    let [reads, writes] = [0, 1].map(|op| outcome.devices.iter().map(|disk| disk.ios[op]).sum::<u64>());
    assert!(reads * 20 < writes, "{reads} {writes}");
}
