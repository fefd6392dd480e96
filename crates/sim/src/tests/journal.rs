//! Where a filesystem's journal is, and what fsync commits.

use crate::cell::{Cell, Job, JournalSpec, Level, Log, Node};
use crate::load::Filesystem;
use crate::outcome::Outcome;
use crate::tests::{cell, disk, iops, job, md, play, refusal};

const JOURNAL: usize = 1; // The number of the journal's disk
const WRITES: u64 = 400;

/// A slow disk with a volatile cache, whose journal is on it or on a fast disk, and jobs that call fsync.
fn synced(kernel: &str, log: Log, is_external: bool, numjobs: u32) -> Cell {
    let load = Job { numjobs, iodepth: 1, fsync: 1, ..job(16 << 20, WRITES / u64::from(numjobs)) };
    let mut cell = cell(md(Level::Raid1, 1), &iops(200.0), &[load]);
    cell.stack = Node::Device(0);
    cell.kernel = kernel.into();
    cell.devices.push(serde_json::from_value(disk(JOURNAL, &iops(20_000.0))).unwrap());
    cell.devices.iter_mut().for_each(|device| device.queue.write_back = true);
    cell.filesystem = Some(Filesystem { commit_ns: 5_000_000_000 });
    cell.journal = Some(JournalSpec { log, device: is_external.then_some(Node::Device(JOURNAL)) });
    if !is_external {
        cell.devices.pop();
    }
    cell
}

/// Writes and flushes of a disk.
fn written(outcome: &Outcome, disk: usize) -> (u64, u64) {
    (outcome.devices[disk].ios[1], outcome.devices[disk].flushes)
}

#[test]
fn each_fsync_commits() {
    let (jbd2, xfs) = (play(&synced("6.1", Log::Jbd2, false, 1)), play(&synced("6.1", Log::Xfs, false, 1)));
    // The log and the commit block; the record. Each with a flush before, and one after, which is forced unit access.
    assert_eq!(written(&jbd2, 0), (3 * WRITES, 2 * WRITES));
    assert_eq!(written(&xfs, 0), (2 * WRITES, 2 * WRITES));
    assert_eq!(jbd2.sync.total_ios, WRITES);
}

#[test]
fn without_a_place_fsync_is_a_flush() {
    let mut cell = synced("6.1", Log::Jbd2, false, 1);
    cell.journal = None;
    let outcome = play(&cell);
    assert!(written(&outcome, 0).0 < WRITES + 10, "{:?}", written(&outcome, 0));
}

#[test]
fn an_external_journal_has_the_commits() {
    for (log, commit_writes, data_flushes) in [(Log::Jbd2, 2, 0), (Log::Xfs, 1, 2)] {
        let outcome = play(&synced("6.1", log, true, 1));
        assert_eq!(written(&outcome, 0), (WRITES, data_flushes * WRITES), "{log:?}");
        assert_eq!(written(&outcome, JOURNAL), (commit_writes * WRITES, 2 * WRITES), "{log:?}");
    }
}

#[test]
fn ext4_flushes_the_data_since_6_15() {
    for (kernel, flushes) in [("6.14", 0), ("6.15", WRITES)] {
        assert_eq!(written(&play(&synced(kernel, Log::Jbd2, true, 1)), 0).1, flushes, "{kernel}");
    }
}

#[test]
fn jobs_that_wait_share_a_commit() {
    for log in [Log::Jbd2, Log::Xfs] {
        let outcome = play(&synced("6.1", log, false, 8));
        assert_eq!(outcome.sync.total_ios, WRITES);
        let commits = written(&outcome, 0).0 - WRITES;
        assert!(commits < WRITES, "{log:?}: {commits} writes of commits");
    }
}

#[test]
fn a_journal_on_a_fast_disk_is_not_slower() {
    for (log, numjobs) in [(Log::Jbd2, 1), (Log::Jbd2, 8), (Log::Xfs, 1), (Log::Xfs, 8)] {
        let [inside, outside] = [false, true].map(|external| play(&synced("6.15", log, external, numjobs)).runtime_ns);
        assert!(outside < inside, "{log:?}, {numjobs} jobs: {outside} ns instead of {inside} ns");
    }
}

#[test]
fn a_run_is_the_same_again() {
    let run = || serde_json::to_string(&play(&synced("6.1", Log::Xfs, true, 4))).unwrap();
    assert_eq!(run(), run());
}

#[test]
fn impossible_journals_are_refused() {
    let mut twice = synced("6.1", Log::Jbd2, true, 1);
    twice.journal = Some(JournalSpec { log: Log::Jbd2, device: Some(Node::Device(0)) });
    assert_eq!(refusal(&twice), "stack: device d0 is used twice: use each device once");
    let mut bare = synced("6.1", Log::Jbd2, true, 1);
    bare.filesystem = None;
    assert_eq!(refusal(&bare), "stack: the cell has a `journal`, but no `filesystem`");
}
