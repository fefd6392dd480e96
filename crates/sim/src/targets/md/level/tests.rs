//! Tests of which members an array can lose.

use crate::cell::{Level, Md};
use crate::tests::{cell, iops, job, md, play, refusal, without};

fn refused(md: Md) -> String {
    refusal(&cell(md, &iops(0.0), &[]))
}

#[test]
fn too_many_lost_members_are_refused() {
    let two_lost = without(without(md(Level::Raid5, 5), 2), 3);
    assert_eq!(refused(two_lost), "stack: md0: 2 members are lost, but the level tolerates only 1");
    let mut three_lost = without(without(md(Level::Raid6, 6), 2), 3);
    three_lost.members[5].rebuilding = true;
    assert_eq!(refused(three_lost), "stack: md0: 3 members are lost, but the level tolerates only 2");
    let striped = without(md(Level::Raid0, 2), 1);
    assert_eq!(refused(striped), "stack: md0: slot 1 is lost, and this level has no redundancy");
    let mut mirror = without(md(Level::Raid1, 2), 1);
    mirror.members[0].rebuilding = true;
    assert_eq!(refused(mirror), "stack: md0: no member has valid data");
    let pair = without(without(md(Level::Raid10, 4), 2), 3);
    assert_eq!(refused(pair), "stack: md0: slots 2, 3 are lost, and they hold all copies of some chunks");
    let far = Md { near: 1, far: 2, ..without(without(md(Level::Raid10, 4), 3), 0) };
    assert_eq!(refused(far), "stack: md0: slots 3, 0 are lost, and they hold all copies of some chunks");
}

#[test]
fn remaining_members_serve_all_writes() {
    let writes = |md: Md, expected: u64| {
        let outcome = play(&cell(md, &iops(0.0), &[job(64 << 20, 400)]));
        assert_eq!(outcome.devices.iter().map(|disk| disk.ios[1] + disk.merges[1]).sum::<u64>(), expected);
    };
    // At the end each member's superblock says that the array is clean.
    writes(without(md(Level::Raid1, 3), 0), 800 + 2);
    writes(without(without(md(Level::Raid10, 4), 0), 1 + 1), 400 + 2);
    writes(without(without(md(Level::Raid1, 3), 0), 2), 400 + 1);
}
