//! Memory that a run uses, and what it leaves behind.

use super::{FinishedRun, Simulation};
use crate::build::build_simulation;
use crate::targets::tests::{assert_idle, peak_size};
use serde_json::json;

impl Simulation {
    /// Like [`play`](Self::play), and checks that nothing is left behind when all tasks are idle.
    pub fn play_and_check_idle(mut self) -> FinishedRun {
        self.run_from_start(&|| false);
        let end = self.now;
        assert_eq!(self.running, 0, "jobs must not wait for ever");
        self.running = usize::MAX;
        self.run(&|| false);
        assert_eq!(self.bios.in_use(), 0, "bios");
        assert!(self.ios.is_empty());
        self.targets.iter_mut().flatten().for_each(|target| assert_idle(&mut **target));
        self.now = end;
        self.finish()
    }
}

/// Plays a mixed load on a mirror for some simulated ms, and returns the sizes of its lists of I/Os, bios, requests,
/// events and queues.
fn peak_sizes(milliseconds: u64) -> Vec<usize> {
    let disk = |name: &str| {
        json!({
            "name": name, "bytes": 1 << 30, "model": {"kind": "throttled", "iops_total": 20_000.0},
            "queue": {"scheduler": "mq-deadline", "nr_requests": 64, "queue_depth": 32, "max_bytes": 1_310_720,
                "rotational": true, "wbt_lat_ns": 75_000_000, "write_back": true},
        })
    };
    let members = [json!({"node": {"device": 0}}), json!({"node": {"device": 1}})];
    let cell = serde_json::from_value(json!({
        "seed": 1, "kernel": "6.1", "devices": [disk("a"), disk("b")],
        "stack": {"md": {"name": "md0", "level": "raid1", "members": members}},
        "filesystem": {"commit_ns": 50_000_000},
        "jobs": [{
            "name": "mixed", "numjobs": 4, "read_share": 0.5, "random": true, "fsync": 16,
            "read_sizes": [[4096, 1.0]], "write_sizes": [[4096, 1.0]], "align": 4096, "offset": 0,
            "size": 1 << 29, "io_bytes": 1_u64 << 50, "iodepth": 32, "batch_submit": 1, "batch_complete_min": 1,
        }],
        "runtime_ns": milliseconds * 1_000_000,
    }))
    .unwrap();
    let mut sim = build_simulation(&cell, None).unwrap();
    assert!(sim.run_from_start(&|| false));
    assert!(sim.metrics.ios > milliseconds);
    let lines: usize = sim.tasks.iter().map(|task| task.work.capacity() + task.plug.capacity()).sum();
    let targets = sim.targets.iter().flatten().map(|target| peak_size(&**target)).sum();
    vec![
        sim.ios.peak_size(),
        sim.bios.peak_size(),
        targets,
        sim.events.peak_size(),
        lines,
        sim.journal_waiters.0.capacity(),
    ]
}

#[test]
fn memory_does_not_grow_with_simulated_time() {
    let (short, long) = (peak_sizes(500), peak_sizes(10_000));
    // Twenty times as long; a burst can be slightly higher.
    for (short, long) in short.iter().zip(&long) {
        assert!(*long <= 2 * short, "the size grew from {short} to {long}");
        assert!(*long < 4096, "{long} items for 128 I/Os in flight");
    }
}
