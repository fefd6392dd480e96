use super::*;
use crate::characterise::chunk::QueuedIo;
use crate::event::{DeviceId, Rwbs};
use proptest::prelude::*;

fn queued(time: u64, sector: u64, write: bool) -> QueuedIo {
    let rwbs = if write { Rwbs::WRITE } else { Rwbs::READ };
    QueuedIo { time, sector, bytes: 4096, process: 0, source: DeviceId(0), rwbs, cpu: 0 }
}

fn profile(offsets: &Offsets) -> OffsetsProfile {
    offsets.profile(&ProfiledDevice { number: "8,0", name: None, p50: None, process: &|process| format!("p{process}") })
}

fn observed(rows: &[QueuedIo], side: usize) -> Offsets {
    let mut offsets = Offsets::new(side);
    offsets.observe(&Chunk { queued: rows.to_vec(), ..Chunk::default() });
    offsets
}

#[test]
fn an_io_is_in_the_cell_of_its_time_and_sector() {
    let slice = 1 << 20;
    let far = 1_000_000 << 7;
    let ios = [queued(0, far, false), queued(2 * slice, far + 128, true), queued(2 * slice, far + 130, true)];
    let profile = profile(&observed(&ios, SIDE));
    assert_eq!((profile.width_ns, profile.rows.len()), (slice, 2));
    let [first, second] = [&profile.rows[0], &profile.rows[1]];
    assert_eq!((first.low, first.end, first.read_levels.as_str(), first.writes), (far, far + 128, "1", 0));
    assert_eq!((second.low, second.write_levels.as_str(), second.reads), (far + 128, "..2", 0));
}

#[test]
fn the_grid_is_bounded_for_any_sector() {
    let ios = [queued(0, 0, false), queued(5, u64::MAX, true), queued(u64::MAX, 1 << 40, true)];
    let profile = profile(&observed(&ios, SIDE));
    assert_eq!(profile.rows.len(), SIDE);
    assert_eq!(profile.rows.iter().map(|row| row.reads + row.writes).sum::<u64>(), 3);
    assert!(profile.rows.iter().all(|row| row.write_levels.len() <= SIDE));
}

proptest! {
    #[test]
    fn merged_parts_equal_the_whole(
        ios in prop::collection::vec((0u64..1 << 32, 0u64..1 << 50, 0u32..40, any::<bool>()), 1..80), cut in 0usize..80,
    ) {
        let ios: Vec<QueuedIo> =
            ios.iter().map(|&(time, sector, shift, write)| queued(time, sector >> shift, write)).collect();
        let cut = cut.min(ios.len());
        let mut merged = observed(&ios[..cut], 16);
        merged.merge(&observed(&ios[cut..], 16));
        prop_assert_eq!(profile(&merged), profile(&observed(&ios, 16)));
    }
}
