use super::*;
use crate::cell::Job;
use crate::targets::TargetReport;
use crate::tests::{cell, iops, job, md, play, reads};

impl DelayTarget {
    /// Panics if anything is in flight.
    pub fn assert_idle(&self) {
        assert!(self.held.is_empty());
    }
}

#[test]
fn a_bio_waits_for_the_tick_after_its_delay() {
    let run = |kernel: &str, load: Job| {
        let mut cell = cell(md(crate::cell::Level::Raid0, 1), &iops(0.0), &[Job { iodepth: 1, ..load }]);
        let origin = Box::new(std::mem::replace(&mut cell.stack, Node::Device(0)));
        cell.stack =
            Node::Delay(Delay { name: "slow".into(), origin, read_ns: 5_000_000, write_ns: 0, flush_ns: None });
        cell.kernel = kernel.into();
        play(&cell)
    };
    // 5 ms are two ticks; the timer fires at the third.
    for (kernel, ticks) in [("6.1", 3.0), ("6.12", 2.0)] {
        let outcome = run(kernel, reads(job(1 << 20, 100)));
        let seconds = ticks * 0.004;
        assert!((outcome.read.iops * seconds - 1.0).abs() < 0.02, "{kernel}: {}", outcome.read.iops);
        assert!(matches!(outcome.targets.last(), Some(TargetReport::Delay(delay)) if delay.held == [100, 0]));
    }
    assert!(run("6.1", job(1 << 20, 100)).write.iops > 10_000.0);
}
