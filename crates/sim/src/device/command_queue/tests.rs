use super::*;
use crate::bio::Op;
use crate::device::HddSpec;
use crate::device::geometry::tests::disk;
use crate::rng::Rng;

fn queued(geometry: &Geometry, random: &mut Rng, span: u64) -> QueuedCommand {
    // Few places, so that commands often begin at the same one, or where the head is.
    let byte = random.below(span / 4096) * 4096 / (1 + random.below(3)) / 512 * 512;
    QueuedCommand {
        command: DiskCommand { request: 0, op: Op::Read, byte, bytes: 4096, fua: false },
        position: geometry.locate(byte),
        batch: random.below(3) as u32,
        arrival: 0,
        ready: random.below(40_000_000),
    }
}

/// Compares every choice with that of a search through all commands.
fn check(spec: &HddSpec, span: u64, seed: u64) {
    let geometry = Geometry::new(spec);
    let mut random = Rng::new(seed);
    let mut queue = CommandQueue::new(CommandOrder::Rotation, false);
    let mut now = random.below(1 << 50);
    let mut head = geometry.locate(0);
    for _ in 0..3000 {
        while queue.len() < 1 + random.below(70) as usize {
            queue.push(queued(&geometry, &mut random, span));
        }
        let overhead = random.below(2) * 100_000;
        let from = Departure { geometry: &geometry, head: &head, now, overhead };
        let without = [None, Some(1)][random.below(2) as usize];
        let all = queue.iter().enumerate().filter(|(_, queued)| without != Some(queued.batch));
        let expected = all.map(|(index, queued)| (from.reach_time(queued, &queued.position), index)).min();
        let chosen = queue.first(&from, without, |queued| queued.position);
        assert_eq!(chosen, expected.map(|(time, index)| (index, time)));
        let index = chosen.map_or(0, |(index, _)| index);
        let removed = queue.swap_remove(index);
        head = geometry.locate(removed.command.byte + [0, 4096][random.below(2) as usize]);
        now += random.below(10_000_000);
    }
}

#[test]
fn the_search_by_angle_finds_what_a_complete_search_finds() {
    check(&disk(), 1 << 20, 1);
    check(&disk(), 1 << 32, 2);
    check(&disk(), disk().capacity, 3);
    // Long seeks: most need several revolutions.
    let slow = HddSpec { seek_average_ns: 40_000_000, seek_full_ns: 100_000_000, rpm: 15_000, ..disk() };
    check(&slow, slow.capacity, 4);
    // Seeks without a time.
    check(&HddSpec { seek_track_ns: 0, seek_average_ns: 0, seek_full_ns: 0, ..disk() }, 1 << 30, 5);
}

#[test]
fn sequential_commands_become_one() {
    let (geometry, mut random) = (Geometry::new(&disk()), Rng::new(1));
    let mut queue = CommandQueue::default();
    (0..3).for_each(|_| queue.push(queued(&geometry, &mut random, 1 << 40)));
    let end = queue[1].command.byte + 4096;
    assert!(queue.append(end, 4096, 8192));
    assert_eq!(queue[1].command.bytes, 8192);
    assert!(!queue.append(end, 4096, 8192), "another end");
    assert!(!queue.append(end + 4096, 4096, 8192), "long enough");
    assert_eq!(queue.find_within(0, end - 4096, end + 4096), Some(1));
    assert_eq!(queue.find_within(2, end - 4096, end + 4096), None);
}
