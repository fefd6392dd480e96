//! Which members arrays can do without.

use crate::cell::{Level, Md};
use crate::tests::{cell, iops, job, md, play, refusal, without};

fn refused(md: Md) -> String {
    refusal(&cell(md, &iops(0.0), &[]))
}

#[test]
fn too_much_lost_is_refused() {
    let twice = without(without(md(Level::Raid5, 5), 2), 3);
    assert_eq!(refused(twice), "stack: md0: 2 members are lost, 1 can be");
    let mut thrice = without(without(md(Level::Raid6, 6), 2), 3);
    thrice.members[5].rebuilding = true;
    assert_eq!(refused(thrice), "stack: md0: 3 members are lost, 2 can be");
    let striped = without(md(Level::Raid0, 2), 1);
    assert_eq!(refused(striped), "stack: md0: slot 1 is lost, and the level has no copies");
    let mut mirror = without(md(Level::Raid1, 2), 1);
    mirror.members[0].rebuilding = true;
    assert_eq!(refused(mirror), "stack: md0: no slot has valid data");
    let pair = without(without(md(Level::Raid10, 4), 2), 3);
    assert_eq!(refused(pair), "stack: md0: slots 2, 3 are lost, all copies of some chunks");
    let far = Md { near: 1, far: 2, ..without(without(md(Level::Raid10, 4), 3), 0) };
    assert_eq!(refused(far), "stack: md0: slots 3, 0 are lost, all copies of some chunks");
}

#[test]
fn what_is_left_serves() {
    let writes = |md: Md, expected: u64| {
        let outcome = play(&cell(md, &iops(0.0), &[job(64 << 20, 400)]));
        assert_eq!(outcome.devices.iter().map(|disk| disk.ios[1] + disk.merges[1]).sum::<u64>(), expected);
    };
    writes(without(md(Level::Raid1, 3), 0), 800);
    writes(without(without(md(Level::Raid10, 4), 0), 1 + 1), 400);
    writes(without(without(md(Level::Raid1, 3), 0), 2), 400);
}
