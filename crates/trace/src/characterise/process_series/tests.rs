use super::*;
use crate::characterise::chunk::QueuedIo;
use crate::event::{DeviceId, Rwbs};
use proptest::prelude::*;

fn observed(rows: &[(u64, u32)]) -> ProcessSeries {
    let mut series = ProcessSeries::default();
    let row = |&(time, process): &(u64, u32)| QueuedIo {
        time,
        sector: 0,
        bytes: 4096,
        process,
        source: DeviceId(0),
        rwbs: Rwbs::READ,
        cpu: 0,
    };
    series.observe(&Chunk { queued: rows.iter().map(row).collect(), ..Chunk::default() });
    series
}

fn profile(series: &ProcessSeries) -> ProcessesOverTime {
    series.profile(&ProfiledDevice { number: "8,0", name: None, p50: None, process: &|process| format!("p{process}") })
}

#[test]
fn a_late_but_large_process_is_distinguished() {
    let slice = 1 << 20;
    let mut rows: Vec<(u64, u32)> = (0..100).map(|process| (process * slice / 8, process as u32)).collect();
    rows.extend((0..500).map(|_| (1000 * slice, 99)));
    let profile = profile(&observed(&rows));
    assert_eq!(profile.ios["p99"].iter().sum::<u64>(), 501);
    assert_eq!((profile.ios["p99"].last(), profile.ios.len()), (Some(&500), DISTINCT + 1));
    assert_eq!(profile.ios.values().flatten().sum::<u64>(), 600);
}

proptest! {
    #[test]
    fn merged_parts_equal_the_whole(
        rows in prop::collection::vec((0u64..1 << 40, 0u32..12), 1..100), cut in 0usize..100,
    ) {
        let cut = cut.min(rows.len());
        let mut merged = observed(&rows[..cut]);
        merged.merge(&observed(&rows[cut..]));
        prop_assert_eq!(profile(&merged), profile(&observed(&rows)));
    }
}
