//! A target for tests: it fails I/Os from a sector on, slightly after they are done, and turns writes into discards.
//! It proves that a target needs one file and one line, and that timers, errors and discards work.

use std::any::Any;

use serde::{Deserialize, Serialize};

use super::queue::DiskQueue;
use super::{BuildContext, Built, Node, TargetSpec};
use crate::SimError;
use crate::bio::{Bio, Flags, Op, Owner};
use crate::cell::{Level, Md, SyncAction};
use crate::engine::{Child, Mapped, Simulation, Target};
use crate::tests::{MEMBER, cell, iops, job, md, play};

/// Panics if anything is in flight in a target.
pub fn assert_idle(target: &mut dyn Any) {
    macro_rules! check {
        ($($kind:ty),+) => {
            $(if let Some(target) = target.downcast_mut::<$kind>() {
                return target.assert_idle();
            })+
        };
    }
    check!(super::bcache::BcacheTarget, super::delay::DelayTarget, super::dm_cache::DmCache, super::md::Array);
    check!(super::writecache::WritecacheTarget, DiskQueue);
    assert!(target.is::<FaultyTarget>(), "a target without a check");
}

/// The size of a target's collections; 0 except for the queue of a disk.
pub fn peak_size(target: &dyn Any) -> usize {
    target.downcast_ref().map_or(0, DiskQueue::peak_size)
}

/// The description of the faulty target.
#[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
pub struct Faulty {
    pub origin: Box<Node>,
    pub fails_from: u64,
    pub discards: bool,
}

#[derive(Debug)]
pub struct FaultyTarget {
    id: u16,
    origin: Child,
    spec: Faulty,
    failed: u64,
}

impl Target for FaultyTarget {
    fn map(&mut self, sim: &mut Simulation, task: u32, number: u32) -> Mapped {
        let bio = sim.bios[number];
        let owner = Owner::Target { target: self.id, tag: 0, number };
        let mut child = bio.clone_for(self.origin.target, bio.sector, bio.sectors, owner);
        if self.spec.discards && bio.op == Op::Write {
            child.op = Op::Discard;
        }
        sim.bios[number].remaining = 1;
        let child = sim.bios.add(child);
        sim.submit(task, child);
        Mapped::Taken
    }

    fn end_io(&mut self, sim: &mut Simulation, child: &Bio) {
        let Owner::Target { number, .. } = child.owner else { unreachable!() };
        assert!(sim.count_part(number, child));
        sim.bios[number].private = u32::from(child.end() > self.spec.fails_from);
        sim.set_timer(sim.now + 1000, self.id, number);
    }

    fn timer(&mut self, sim: &mut Simulation, number: u32) {
        if sim.bios[number].private == 0 {
            return sim.complete(number);
        }
        self.failed += 1;
        let flags = &mut sim.bios[number].flags;
        *flags = flags.with(Flags::FAILED);
        sim.complete(number);
    }
}

impl TargetSpec for Faulty {
    type Target = FaultyTarget;
    type Report = u64;

    fn children(&self) -> Vec<Option<&Node>> {
        vec![Some(&self.origin)]
    }

    fn build(&self, id: u16, children: &[Option<Child>], _: &BuildContext) -> Built<FaultyTarget> {
        let origin = children[0].ok_or("nothing is faulty")?;
        Ok((FaultyTarget { id, origin, spec: self.clone(), failed: 0 }, origin.limits))
    }

    fn report(target: &FaultyTarget) -> u64 {
        target.failed
    }
}

/// An array whose member 1 fails beyond the first 4 KiB.
fn with_faulty_member(mut md: Md) -> Md {
    let origin = Box::new(md.members[1].node.take().unwrap());
    md.members[1].node = Some(Node::Faulty(Faulty { origin, fails_from: 8, discards: false }));
    md
}

#[test]
fn errors_go_up_through_arrays() {
    for level in [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid10] {
        let error = crate::run(&cell(with_faulty_member(md(level, 2)), &iops(0.0), &[job(MEMBER, 500)]));
        match (level, error) {
            // All I/O stays on the first member.
            (Level::Linear, Ok(outcome)) => assert_eq!(outcome.write.total_ios, 500),
            (_, Err(SimError::Io { op: Op::Write, sectors: 8, .. })) => {}
            (_, other) => panic!("{level:?}: {other:?}"),
        }
    }
    // The sectors before the fault are served.
    let kept = cell(with_faulty_member(md(Level::Raid1, 2)), &iops(0.0), &[job(4096, 500)]);
    assert_eq!(play(&kept).write.total_ios, 500);
}

#[test]
fn discards_go_down_to_disks_but_not_through_parity() {
    let trimmed = |md: Md| {
        let mut cell = cell(md, &iops(0.0), &[job(MEMBER, 500)]);
        let origin = Box::new(std::mem::replace(&mut cell.stack, Node::Device(0)));
        cell.stack = Node::Faulty(Faulty { origin, fails_from: u64::MAX, discards: true });
        cell
    };
    let syncing = Md { sync: SyncAction::Resync, ..md(Level::Raid1, 2) };
    let bitmap = Md { bitmap: true, ..md(Level::Raid10, 4) };
    for md in [md(Level::Raid0, 3), md(Level::Raid1, 3), syncing, bitmap] {
        let level = md.level;
        let (synced, has_bitmap) = (md.sync == SyncAction::Resync, md.bitmap);
        let outcome = play(&trimmed(md));
        assert_eq!(outcome.write.total_ios, 500);
        // At the end a superblock says that the array is clean; of an array with a bitmap, that of the bitmap as well.
        let superblocks = if level == Level::Raid0 { 0 } else { 1 + u64::from(has_bitmap) };
        assert!(synced || outcome.devices.iter().all(|disk| disk.ios == [0, superblocks]), "{level:?}");
    }
    assert!(matches!(crate::run(&trimmed(md(Level::Raid5, 3))), Err(SimError::Io { .. })));
}
