//! Tests of what syncs read and write, and of the speed that they leave to other I/O.

use crate::build::build_simulation;
use crate::cell::{Cell, Job, Level, Md, SyncAction};
use crate::outcome::Outcome;
use crate::tests::{MEMBER, array, cell, iops, job, md, play, reads, without};

/// An array that syncs.
fn syncing(kind: SyncAction, rebuilding: &[usize], mut md: Md) -> Md {
    md.sync = kind;
    rebuilding.iter().for_each(|&slot| md.members[slot].rebuilding = true);
    md
}

/// Bytes that each disk reads and writes in a complete sync, with almost no load.
fn moved(md: Md) -> Vec<[u64; 2]> {
    let outcome = play(&cell(md, &iops(0.0), &[reads(job(4096, 0))]));
    assert!(array(&outcome).sync_bytes >= MEMBER);
    outcome.devices.iter().map(|disk| disk.sectors.map(|sectors| sectors * 512)).collect()
}

/// Plays a cell until its jobs end.
fn while_jobs_run(cell: &Cell) -> Outcome {
    Outcome::new(build_simulation(cell, None).unwrap().play(&|| false).unwrap().unwrap())
}

const READ: [u64; 2] = [MEMBER, 0];
const WRITTEN: [u64; 2] = [0, MEMBER];
const UNTOUCHED: [u64; 2] = [0, 0];

#[test]
fn raid1_syncs_read_and_write_the_expected_members() {
    let raid1 = || md(Level::Raid1, 3);
    assert_eq!(moved(syncing(SyncAction::Resync, &[], raid1())), [READ, WRITTEN, WRITTEN]);
    assert_eq!(moved(syncing(SyncAction::Recover, &[0], raid1())), [WRITTEN, READ, UNTOUCHED]);
    assert_eq!(moved(syncing(SyncAction::Check, &[], raid1())), [READ, READ, READ]);
    assert_eq!(moved(syncing(SyncAction::Resync, &[], without(raid1(), 1))), [READ, WRITTEN]);
}

#[test]
fn raid10_syncs_read_and_write_the_expected_members() {
    let raid10 = || md(Level::Raid10, 4);
    assert_eq!(moved(syncing(SyncAction::Resync, &[], raid10())), [READ; 4]);
    assert_eq!(moved(syncing(SyncAction::Recover, &[0], raid10())), [WRITTEN, READ, UNTOUCHED, UNTOUCHED]);
    assert_eq!(moved(syncing(SyncAction::Recover, &[0, 3], raid10())), [WRITTEN, READ, READ, WRITTEN]);
    let far = Md { near: 1, far: 2, ..raid10() };
    let half = [MEMBER / 2, 0];
    assert_eq!(moved(syncing(SyncAction::Recover, &[1], far)), [half, WRITTEN, half, UNTOUCHED]);
}

#[test]
fn parity_syncs_read_and_write_the_expected_members() {
    assert_eq!(moved(syncing(SyncAction::Resync, &[], md(Level::Raid5, 5))), [READ; 5]);
    assert_eq!(moved(syncing(SyncAction::Check, &[], md(Level::Raid6, 4))), [READ; 4]);
    let recovered = moved(syncing(SyncAction::Recover, &[2], md(Level::Raid5, 5)));
    assert_eq!(recovered, [READ, READ, WRITTEN, READ, READ]);
    let recovered = moved(syncing(SyncAction::Recover, &[4], without(md(Level::Raid6, 5), 1)));
    assert_eq!(recovered, [READ, READ, READ, WRITTEN]);
}

/// An array with limits in KiB/s.
fn limited(min: u64, max: u64, md: Md) -> Md {
    Md { sync_speed_min: min, sync_speed_max: max, ..syncing(SyncAction::Resync, &[], md) }
}

#[test]
fn a_sync_is_never_faster_than_its_maximum() {
    for synced in [md(Level::Raid1, 2), md(Level::Raid10, 4), md(Level::Raid5, 5)] {
        let idle = Job { rate_iops: 1.0, ..reads(job(1 << 20, 20)) };
        let outcome = while_jobs_run(&cell(limited(100, 2048, synced), &iops(0.0), &[idle]));
        let seconds = outcome.runtime_ns as f64 / 1e9;
        let speed = array(&outcome).sync_bytes as f64 / 1024.0 / seconds;
        assert!((1800.0..2250.0).contains(&speed), "{speed} KiB/s in {seconds} s");
    }
}

#[test]
fn the_load_keeps_its_share_and_the_sync_its_minimum() {
    // The minimum speed is 16 of the 200 I/Os that each disk does per second. Reads beyond the resync have only one
    // copy.
    for (level, disks) in [(Level::Raid1, 2), (Level::Raid10, 2), (Level::Raid10, 4), (Level::Raid5, 4)] {
        for (read, least) in [(true, 0.35), (false, 0.8)] {
            let size = MEMBER * if level == Level::Raid5 { 3 } else { disks / 2 };
            // Enough for many barriers of RAID-1.
            let load = Job { read_share: f64::from(read), ..job(size * 64, 4000) };
            let run = |array: Md| {
                let mut cell = cell(array, &iops(200.0), std::slice::from_ref(&load));
                cell.devices.iter_mut().for_each(|device| device.bytes *= 64);
                while_jobs_run(&cell)
            };
            let alone = run(md(level, disks as usize));
            let with_sync = run(limited(1024, 200_000, md(level, disks as usize)));
            let seconds = with_sync.runtime_ns as f64 / 1e9;
            let speed = array(&with_sync).sync_bytes as f64 / 1024.0 / seconds;
            let iops = |outcome: &Outcome| outcome.read.iops + outcome.write.iops;
            let share = iops(&with_sync) / iops(&alone);
            assert!(share > least, "{level:?} {disks}, reads {read}: {share} of {}", iops(&alone));
            assert!(speed > 900.0, "{level:?} {disks}, reads {read}: {speed} KiB/s");
        }
    }
}

#[test]
fn reads_before_the_resync_go_to_the_first_copy() {
    let load = Job { rate_iops: 100.0, ..reads(job(MEMBER, 500)) };
    let outcome = while_jobs_run(&cell(limited(10, 100, md(Level::Raid1, 2)), &iops(0.0), &[load]));
    let slots = &array(&outcome).slots;
    assert!(slots[0].only > 450, "{slots:?}");
}
