//! What processors and locks limit, against figures that were published or calculated by hand.

mod common;

use blklab_sim::outcome::{LockUse, MdReport, Outcome, TargetReport};
use common::{array, cell, device, job};
use serde_json::{Value, json};

/// A disk without limits.
fn ram() -> Value {
    let mut disk = device("slow", "none");
    disk["model"] = json!({"kind": "throttled", "latency_ns": 1000});
    disk["queue"] = json!({
        "scheduler": "none", "nr_requests": 1023, "queue_depth": 1023, "max_bytes": 1_310_720, "rotational": false,
        "wbt_lat_ns": 0, "write_back": false,
    });
    disk
}

/// Runs jobs on an array of such disks with 96 cores.
fn run(kernel: &str, disks: &[Value], shape: Value, load: Value, host: Value) -> Outcome {
    let mut jobs = job(0.0, true, json!({"numjobs": 64, "iodepth": 8, "size": 1 << 30}));
    jobs.as_object_mut().unwrap().extend(load.as_object().unwrap().clone());
    let mut shape = shape;
    shape["chunk"] = if shape["level"] == "raid1" { json!(0) } else { json!(65536) };
    let mut with_cores = json!({"cores": 96});
    with_cores.as_object_mut().unwrap().extend(host.as_object().unwrap().clone());
    let stack = array(disks.len(), shape);
    let max_ios = if jobs["align"] == 4096 { 60_000 } else { 3_000 };
    let more = json!({"max_ios": max_ios, "host": with_cores});
    blklab_sim::run(&cell(kernel, disks, stack, &[jobs], more)).unwrap()
}

fn iops(outcome: &Outcome) -> f64 {
    outcome.read.iops + outcome.write.iops
}

fn md(outcome: &Outcome) -> &MdReport {
    match outcome.targets.last() {
        Some(TargetReport::Md(report)) => report,
        other => panic!("{other:?}"),
    }
}

fn lock<'a>(outcome: &'a Outcome, name: &str) -> &'a LockUse {
    md(outcome).locks.iter().find(|lock| lock.name == name).unwrap_or_else(|| panic!("{:?}", md(outcome).locks))
}

fn assert_near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found}, not {expected}");
}

#[test]
fn a_mirror_s_wake_ups_limit_it_until_6_5() {
    // linux-raid, June 2023, and commit 21bd9a68fef4: 0.7 reads with one acquisition and 0.3 writes with three.
    let mixed = |kernel, lock_ns| {
        run(kernel, &[ram(), ram()], json!({"level": "raid1"}), json!({"read_share": 0.7}), json!({"lock_ns": lock_ns}))
    };
    let outcome = mixed("5.15", 845);
    assert_near(iops(&outcome), 740e3, 0.05);
    let busy = lock(&outcome, "wait_barrier").held_ns as f64 / outcome.watched_ns as f64;
    assert!(busy > 0.9, "{busy}");
    assert_near(iops(&mixed("5.15", 388)), 1.61e6, 0.05);
    let without = mixed("6.6", 388);
    assert!(iops(&without) > 2.5e6 && md(&without).locks.is_empty(), "{} {:?}", iops(&without), md(&without).locks);
}

#[test]
fn aligned_reads_of_raid6_take_device_lock_until_5_13() {
    // Commit 97ae27252f49: 2 and 4 million reads per second on RAM disks, 1.6 and 2 million on NVMe disks.
    let reads = |kernel, disk: &Value| {
        let load = json!({"read_share": 1.0, "iodepth": 16});
        let host = json!({"lock_ns": 500, "atomic_ns": 125});
        run(kernel, &vec![disk.clone(); 8], json!({"level": "raid6"}), load, host)
    };
    let old = reads("5.13", &ram());
    assert_near(iops(&old), 2e6, 0.06);
    assert_near(iops(&reads("5.14", &ram())), 4e6, 0.06);
    let mut nvme = device("nvme", "none");
    // 250,000 reads per second: a command of 2.72 µs, and the transfer.
    nvme["model"]["read_command_ns"] = json!(2720);
    assert_near(iops(&reads("5.14", &nvme)), 2e6, 0.06);
    // Once for each read, those in flight at the end included.
    assert!((60_000..62_000).contains(&lock(&old, "device_lock").taken));
}

#[test]
fn raid5d_is_one_core_and_workers_are_more() {
    let writes = |threads, lock_ns| {
        let shape = json!({"level": "raid5", "group_thread_cnt": threads, "stripe_cache": 4096});
        run("6.1", &vec![ram(); 8], shape, json!({}), json!({"lock_ns": lock_ns}))
    };
    let alone = writes(0, 400);
    assert_near(iops(&alone), 125e3, 0.1);
    assert_near(md(&alone).thread_ns as f64, alone.watched_ns as f64, 0.05);
    // Five threads, and device_lock.
    let five = iops(&writes(4, 400));
    assert!((435e3..660e3).contains(&five), "{five}");
    assert!(iops(&writes(4, 850)) < five);
}

#[test]
fn a_thread_of_md_pays_for_submitting_to_sata_disks() {
    // A small write is four requests, each of which takes raid5d 56 % of 4.3 µs more.
    let disk = || {
        let mut disk = device("sata", "none");
        disk["queue"]["nr_requests"] = json!(1023);
        disk["queue"]["queue_depth"] = json!(1023);
        disk["queue"]["wbt_lat_ns"] = json!(0);
        disk["model"]["units"] = json!(4096);
        for (key, value) in [("read_command_ns", 0), ("write_command_ns", 0), ("page_read_ns", 0), ("program_ns", 0)] {
            disk["model"][key] = json!(value);
        }
        for key in ["read_bandwidth", "write_bandwidth"] {
            disk["model"][key] = json!(1u64 << 50);
        }
        disk
    };
    let rate = |scsi_ns| {
        let shape = json!({"level": "raid5", "stripe_cache": 4096});
        let host = json!({"scsi_ns": scsi_ns, "lock_ns": 1, "atomic_ns": 1});
        let outcome = run("6.1", &vec![disk(); 8], shape, json!({}), host);
        assert_near(md(&outcome).thread_ns as f64, outcome.watched_ns as f64, 0.05);
        iops(&outcome)
    };
    assert_near(1e9 / rate(4300) - 1e9 / rate(0), 4.0 * 0.56 * 4300.0, 0.1);
}

#[test]
fn raid10_takes_two_locks_until_6_0() {
    // Linux-raid 2022-09: RAID-10 of four NVMe disks on a Kunpeng 920 had 3.2 and 7.9 GiB/s of random reads.
    let reads = |kernel| {
        let load = json!({"read_share": 1.0, "numjobs": 16, "iodepth": 256});
        run(kernel, &vec![ram(); 4], json!({"level": "raid10", "near": 2, "far": 1}), load, json!({"lock_ns": 1190}))
    };
    let old = reads("6.0");
    assert_near(iops(&old), 839e3, 0.05);
    assert_eq!(lock(&old, "resync_lock").taken, lock(&old, "wait_barrier").taken);
    assert!(iops(&reads("6.1")) > 2.2 * iops(&old));
}

#[test]
fn the_bitmap_s_lock_is_taken_for_every_page_until_6_11() {
    let writes = |kernel| {
        let load = json!({"write_sizes": [[65536, 1.0]], "align": 65536});
        let shape = json!({
            "level": "raid5", "bitmap": true, "group_thread_cnt": 64, "stripe_cache": 32768,
        });
        // Rows without a price: the lock alone.
        let host = json!({"pass_ns": 1, "copy_ns": 0, "member_ns": 0, "xor_rate": 1_000_000_000_000_u64});
        run(kernel, &vec![ram(); 8], shape, load, host)
    };
    let (old, new) = (iops(&writes("6.11")), iops(&writes("6.14")));
    assert_near(old, 78e3, 0.1);
    assert!(new > 1.4 * old, "{new}");
}

#[test]
fn a_stripe_is_one_bio_since_7_0() {
    // A stripe of 8 chunks of 512 KiB is four bios of 1 MiB before.
    let taken = |kernel| {
        let load = json!({
            "write_sizes": [[4 << 20, 1.0]], "align": 4 << 20, "random": false, "numjobs": 8, "iodepth": 1,
            "size": 64 << 20, "io_bytes": 64 << 20, "offset_increment": 64 << 20,
        });
        let shape = json!({"level": "raid5"});
        let mut stack = array(9, shape);
        stack["md"]["chunk"] = json!(512 << 10);
        let mut jobs = job(0.0, true, json!({}));
        jobs.as_object_mut().unwrap().extend(load.as_object().unwrap().clone());
        let outcome = blklab_sim::run(&cell(kernel, &vec![ram(); 9], stack, &[jobs], json!({}))).unwrap();
        lock(&outcome, "hash_locks").taken
    };
    assert_eq!([taken("6.19"), taken("7.0")], [4 * 128, 128]);
}

#[test]
fn reads_of_a_degraded_array_take_no_counter_of_aligned_reads() {
    let mut stack = array(5, json!({"level": "raid5", "chunk": 65536}));
    stack["md"]["members"][0]["node"] = Value::Null;
    let jobs = [job(1.0, true, json!({"numjobs": 8, "size": 64 << 20, "io_bytes": 1 << 20}))];
    let outcome = blklab_sim::run(&cell("6.6", &vec![ram(); 5], stack, &jobs, json!({}))).unwrap();
    assert!(md(&outcome).locks.iter().all(|lock| lock.name != "active_aligned_reads"), "{:?}", md(&outcome).locks);
}

#[test]
fn a_reconstruction_calculates_parity_from_the_whole_row() {
    // Nine data pages of 4 KiB at half of 10 MB/s, and nothing else that takes time.
    let shape = json!({"level": "raid5", "rmw_level": 0, "stripe_cache": 4096});
    let host = json!({"xor_rate": 10_000_000, "pass_ns": 0, "copy_ns": 0, "member_ns": 0});
    let outcome = run("6.1", &vec![ram(); 10], shape, json!({}), host);
    assert_near(1e9 / iops(&outcome), 9.0 * 2.0 * 4096.0 / 10e6 * 1e9, 0.02);
}

#[test]
fn jobs_share_the_cores() {
    let reads = |cores, numjobs| {
        let load = json!({"read_share": 1.0, "numjobs": numjobs});
        run("6.6", &vec![ram(); 4], json!({"level": "raid0"}), load, json!({"cores": cores}))
    };
    // A job spends 2.2 + 1.2 + 0.6 µs on an I/O.
    let short = reads(8, 32);
    assert_near(iops(&short), 8.0 / 4e-6, 0.03);
    assert!(short.cores_busy.unwrap() > 0.97);
    let enough = reads(64, 32);
    assert_near(iops(&enough), 32.0 / 4e-6, 0.05);
    assert_eq!(enough.cores_busy, None);
    // Tasks that spin burn their cores: more jobs than the lock can serve take nothing from it.
    let mixed = |cores, numjobs| {
        let host = json!({"lock_ns": 845, "cores": cores});
        let load = json!({"read_share": 0.7, "numjobs": numjobs});
        run("5.15", &[ram(), ram()], json!({"level": "raid1"}), load, host)
    };
    let crowded = mixed(32, 128);
    assert_near(iops(&crowded), 740e3, 0.06);
    assert!(crowded.cores_busy.unwrap() > 0.95);
}

#[test]
fn an_engine_has_its_price() {
    // 3.4 µs with libaio, 82 % of that with io_uring, and 0.6 µs of RAID-0.
    let jobs = |kernel, more: Value| {
        let mut load = json!({"read_share": 1.0, "numjobs": 4});
        load.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        iops(&run(kernel, &vec![ram(); 4], json!({"level": "raid0"}), load, json!({})))
    };
    assert_near(jobs("6.6", json!({})), 4.0 / 4e-6, 0.03);
    assert_near(jobs("6.6", json!({"io_uring": true})), 4.0 / 3.388e-6, 0.03);
    // Until 5.16 a worker submits for it, which is two switches of 1.1 µs more.
    assert_near(jobs("5.16", json!({"io_uring": true})), 4.0 / 5.588e-6, 0.03);
    let job = job(1.0, true, json!({"io_uring": true}));
    let refused = blklab_sim::run(&cell("5.0", &[ram()], json!({"device": 0}), &[job], json!({}))).unwrap_err();
    assert!(refused.to_string().ends_with("io_uring: expected Linux 5.1 or newer"), "{refused}");
}

#[test]
fn a_job_that_sleeps_pays_for_switches() {
    let price = |iodepth: u32, batch: u32| {
        let mut disk = ram();
        disk["model"]["latency_ns"] = json!(50_000);
        let load = json!({
            "read_share": 1.0, "numjobs": 1, "iodepth": iodepth, "batch_submit": batch, "batch_complete_min": batch,
        });
        let outcome = run("6.6", &vec![disk; 4], json!({"level": "raid0"}), load, json!({}));
        outcome.processor_ns as f64 / 60_000.0
    };
    // One I/O at a time is 3.4 + 0.6 + 2 · 1.1 µs; in a batch of eight, they share the switches.
    assert_near(price(1, 1), 6200.0, 0.01);
    assert_near(price(8, 8), 4275.0, 0.01);
}

#[test]
fn locks_of_caches_limit_many_jobs() {
    let cached = |stack: Value| {
        let jobs = [job(1.0, true, json!({"numjobs": 64, "iodepth": 8, "size": 64 << 20}))];
        let more = json!({"max_ios": 60_000, "host": {"cores": 96}});
        blklab_sim::run(&cell("6.6", &[ram(), ram()], stack, &jobs, more)).unwrap()
    };
    let dm = cached(json!({"lvmcache": {
        "name": "c", "origin": {"device": 0}, "cache": {"device": 1}, "mode": "writeback", "policy": "smq",
        "chunk": 65536, "state": "warm",
    }}));
    // A hit takes the prison's lock twice, which is 0.4 µs each time.
    assert_near(iops(&dm), 1.25e6, 0.1);
    let Some(TargetReport::LvmCache(report)) = dm.targets.last() else { panic!() };
    let lock = report.locks.iter().find(|lock| lock.name == "the lock of the bio prison").unwrap();
    assert!(lock.held_ns as f64 > 0.9 * dm.watched_ns as f64);
}

#[test]
fn disks_read_before_a_short_page_of_the_bitmap() {
    // One job that writes to 128 chunks of 64 MiB, whose bits are in a page of one sector.
    let busy = |kernel| {
        let load = json!({
            "numjobs": 1, "iodepth": 1, "align": 64 << 20, "size": 8_u64 << 30, "io_bytes": 400 << 10,
        });
        let mut jobs = job(0.0, true, json!({}));
        jobs.as_object_mut().unwrap().extend(load.as_object().unwrap().clone());
        let stack = array(2, json!({"level": "raid1", "bitmap": true, "bitmap_chunk": 64 << 20}));
        let outcome =
            blklab_sim::run(&cell(kernel, &vec![device("nvme", "none"); 2], stack, &[jobs], json!({}))).unwrap();
        (100.0 * outcome.write.clat_ns.summary.mean.unwrap(), md(&outcome).bitmap_writes)
    };
    let ((short, writes), (whole, _)) = (busy("6.3"), busy("6.4"));
    // The last write clears bits, and no job waits for it.
    assert_near((short - whole) / (writes - 1) as f64, 520e3, 0.05);
}

#[test]
fn flushes_of_an_array_wait_for_each_other() {
    // 16 jobs that flush after each write, and disks that flush in 1 ms. A job waits for one or two flushes if they are
    // shared, and for 16 if each is alone, as until 4.17.
    let outcome = |kernel| {
        let mut disk = device("nvme", "none");
        disk["model"]["flush_ns"] = json!(1_000_000);
        disk["queue"]["write_back"] = json!(true);
        let jobs =
            [job(0.0, true, json!({"numjobs": 16, "iodepth": 1, "fsync": 1, "size": 64 << 20, "io_bytes": 400 << 10}))];
        let stack = array(2, json!({"level": "raid1"}));
        blklab_sim::run(&cell(kernel, &[disk.clone(), disk], stack, &jobs, json!({}))).unwrap()
    };
    for kernel in ["4.18", "5.2", "6.11", "6.12"] {
        let shared = outcome(kernel);
        assert!((7.8e3..16e3).contains(&shared.sync.iops), "{kernel}: {}", shared.sync.iops);
        let most = shared.watched_ns as f64 / 1e6;
        assert!(kernel == "4.18" || kernel == "6.12" || shared.devices[0].flushes as f64 <= most, "{kernel}");
    }
    assert_near(outcome("4.17").sync.iops, 1e3, 0.1);
}
