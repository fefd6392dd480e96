//! The simulator reads what `python/blklab/experiment` writes.

use blklab_sim::cell::{Cell, Level, Model, Node, Scheduler};

#[test]
fn the_golden_cell_is_read() {
    let text = include_str!("../../../tests/experiment/golden/unbalanced-21.json");
    let cell: Cell = serde_json::from_str(text).unwrap();
    assert_eq!((cell.seed, cell.kernel.as_str()), (1, "4.19"));
    let Node::Md(md) = &cell.stack else { panic!("{:?}", cell.stack) };
    assert_eq!((md.level, md.near, md.far, md.members.len()), (Level::Raid10, 2, 1, 2));
    assert!(matches!(cell.devices[0].model, Model::Nvme(_)));
    assert_eq!(cell.devices[1].queue.scheduler, Scheduler::MqDeadline);
    assert_eq!(cell.jobs[0].numjobs, 4);
}
