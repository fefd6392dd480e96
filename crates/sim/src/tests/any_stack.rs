//! For any array and load, all I/O completes, nothing is left behind, and a run gives the same result again.

use proptest::prelude::*;

use crate::build::build_simulation;
use crate::cell::{Cell, Delay, Job, Level, Md, Member, Node, Scheduler, SyncAction};
use crate::kernel::Kernel;
use crate::tests::{MEMBER, array, cell, disk, iops, job, md, play, reads, stream, without};

const LEVELS: [Level; 7] =
    [Level::Linear, Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6];

const SIZES: &[&[u32]] = &[&[512], &[4096], &[512, 4096, 65536], &[8192, 300 << 10]];

prop_compose! {
    /// Any array; some cannot be built.
    fn arrays()(
        level in prop::sample::select(&LEVELS),
        disks in 2usize..7,
        (near, far, offset) in (1u32..3, 1u32..3, any::<bool>()),
        chunk in 12u32..18,
        lost in prop::collection::vec((0usize..7, 0..3), 0..3),
        stripe_cache in prop::sample::select(&[17u32, 64, 256]),
        bitmap in prop::option::of(12u32..27),
        sync in prop::sample::select(&[SyncAction::Idle, SyncAction::Resync, SyncAction::Recover, SyncAction::Check]),
        (sync_speed_min, sync_speed_max) in (1000u64..20_000, 20_000u64..1_000_000),
    ) -> Md {
        let mut md = Md {
            chunk: 1 << chunk,
            near,
            far,
            offset,
            stripe_cache,
            bitmap: bitmap.is_some(),
            bitmap_chunk: 1 << bitmap.unwrap_or(26),
            sync,
            sync_speed_min,
            sync_speed_max,
            ..md(level, disks)
        };
        for (slot, how) in lost {
            let member = &mut md.members[slot % disks];
            match how {
                0 => member.node = None,
                1 => member.rebuilding = true,
                _ => member.write_mostly = true,
            }
        }
        md
    }
}

prop_compose! {
    fn jobs()(
        (random, read_share) in (any::<bool>(), prop::sample::select(&[0.0, 0.5, 1.0])),
        sizes in prop::sample::select(SIZES),
        (iodepth, batch, fsync) in (1u32..40, 1u32..40, 0u32..20),
        region in prop::sample::select(&[64u64 << 10, 1 << 20, 40 << 20]),
        ios in 1u64..200,
    ) -> Job {
        let sizes: Vec<(u32, f64)> = sizes.iter().map(|&bytes| (bytes, 1.0)).collect();
        let mean = sizes.iter().map(|size| u64::from(size.0)).sum::<u64>() / sizes.len() as u64;
        Job {
            random,
            read_share,
            align: 512,
            read_sizes: sizes.clone(),
            write_sizes: sizes,
            iodepth,
            batch_submit: batch,
            batch_complete_min: batch.min(iodepth),
            fsync,
            io_bytes: ios * mean / 512 * 512,
            ..job(region, 0)
        }
    }
}

prop_compose! {
    fn cells()(
        md in arrays(),
        jobs in prop::collection::vec(jobs(), 1..4),
        rate in prop::sample::select(&[0.0, 2000.0]),
        kernel in prop::sample::select(&["3.16", "4.19", "6.1", "6.12"]),
        scheduler in prop::sample::select(&[Scheduler::None, Scheduler::MqDeadline, Scheduler::Cfq]),
        (nr_requests, queue_depth) in (4u32..64, 1u32..32),
        (wbt_lat_ns, write_back) in (prop::sample::select(&[0u64, 2_000_000]), any::<bool>()),
        seed: u64,
    ) -> Cell {
        let mut cell = Cell { seed, kernel: kernel.into(), ..cell(md, &iops(rate), &jobs) };
        for device in &mut cell.devices {
            device.bytes = MEMBER / 2;
            let queue = &mut device.queue;
            (queue.scheduler, queue.nr_requests, queue.queue_depth) = (scheduler, nr_requests, queue_depth);
            (queue.wbt_lat_ns, queue.write_back) = (wbt_lat_ns, write_back);
        }
        cell
    }
}

/// The number of copies of each byte, if the array is a mirror without missing members.
fn copies(md: &Md) -> Option<u64> {
    let whole = md.members.iter().all(|member| member.node.is_some());
    match md.level {
        Level::Raid1 if whole => Some(md.members.len() as u64),
        Level::Raid10 if whole => Some(u64::from(md.near * md.far)),
        Level::Raid0 | Level::Linear => Some(1),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_cell_completes_and_leaves_nothing_behind(cell in cells()) {
        // An impossible cell is an error.
        if build_simulation(&cell, None).is_err() {
            return Ok(());
        }
        let outcome = play(&cell);
        let Node::Md(md) = &cell.stack else { unreachable!() };
        let asked: u64 = cell.jobs.iter().map(|job| job.io_bytes).sum();
        let done = outcome.read.io_bytes + outcome.write.io_bytes;
        prop_assert!(done >= asked, "{done} of {asked}");
        if let Some(copies) = copies(md).filter(|_| md.sync == SyncAction::Idle) {
            // Up to 6.3, the last page of a bitmap is written in part.
            let whole_pages = Kernel::parse(&cell.kernel).unwrap().writes_whole_bitmap_pages();
            let unit = if whole_pages { 4096 } else { 512 };
            let written: u64 = outcome.devices.iter().map(|disk| disk.sectors[1] * 512).sum();
            let bitmap = array(&outcome).bitmap_writes * unit * md.members.len() as u64;
            // Superblocks are written at the end, and in pauses.
            let expected = outcome.write.io_bytes * copies + bitmap;
            let rest = written.checked_sub(expected);
            prop_assert!(rest.is_some_and(|rest| rest % unit == 0), "{written} {expected}");
        }
        let again = play(&cell);
        prop_assert_eq!(serde_json::to_string(&outcome).unwrap(), serde_json::to_string(&again).unwrap());
    }
}

/// An array of arrays of two or three disks each.
fn nested(outer: Level, inner: &[Md]) -> Cell {
    let (mut devices, mut members) = (0, Vec::new());
    for md in inner {
        let mut md = md.clone();
        for member in &mut md.members {
            member.node = Some(Node::Device(devices));
            devices += 1;
        }
        members.push(Member { node: Some(Node::Md(md)), write_mostly: false, rebuilding: false });
    }
    let top = Md { members, ..md(outer, 0) };
    let load = Job { fsync: 10, read_share: 0.3, iodepth: 32, batch_submit: 4, ..job(MEMBER, 2000) };
    let mut cell = cell(top, &iops(0.0), &[load]);
    let disks = (0..devices).map(|n| disk(n, &iops(0.0)));
    cell.devices = disks.map(|device| serde_json::from_value(device).unwrap()).collect();
    cell
}

#[test]
fn arrays_of_arrays_complete() {
    let bitmap = |md| Md { bitmap: true, bitmap_chunk: 1 << 20, ..md };
    let sync = |md| Md { sync: SyncAction::Resync, ..md };
    let raid5 = || md(Level::Raid5, 3);
    play(&nested(Level::Raid0, &[raid5(), raid5()]));
    play(&nested(Level::Raid5, &[raid5(), bitmap(raid5()), sync(raid5())]));
    let mirror = || md(Level::Raid1, 2);
    let mut cell = nested(Level::Raid5, &[sync(mirror()), bitmap(mirror()), sync(bitmap(mirror()))]);
    play(&cell);
    if let Node::Md(md) = &mut cell.stack {
        // Few tags, so that the delay's worker must wait for them.
        cell.devices.iter_mut().for_each(|device| device.queue.nr_requests = 4);
        let origin = Box::new(md.members[1].node.take().unwrap());
        let delay =
            Delay { name: "delay".into(), origin, read_ns: 3_000_000, write_ns: 1_000_000, flush_ns: Some(2_000_000) };
        md.members[1].node = Some(Node::Delay(delay));
    }
    play(&cell);
    if let Node::Md(md) = &mut cell.stack {
        (md.bitmap, md.bitmap_chunk, md.sync) = (true, 1 << 20, SyncAction::Check);
    }
    play(&cell);
}

#[test]
fn a_job_that_ends_holds_back_no_row() {
    let array = without(Md { chunk: 4096, stripe_cache: 17, ..md(Level::Raid4, 4) }, 0);
    // The batch of its last read is never full. That read is done early if the other job wants the same row.
    let reader = reads(Job { random: true, align: 512, io_bytes: 10 * 4096, ..stream(65536, 4096, 9, 9) });
    let writer = Job { io_bytes: 45 * 512, ..stream(65536, 512, 10, 1) };
    for seed in 0..400 {
        play(&Cell { seed, ..cell(array.clone(), &iops(0.0), &[reader.clone(), writer.clone()]) });
    }
}
