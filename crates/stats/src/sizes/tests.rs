use super::*;
use proptest::prelude::*;

fn of(sizes: &[u32]) -> SizeHistogram {
    let mut all = SizeHistogram::default();
    sizes.iter().for_each(|&bytes| all.record(bytes));
    all
}

#[test]
fn bins_are_centred_on_their_size() {
    let summary = of(&[0, 2047, 2048, 4096, 6143, 6144, 8192, 1 << 20, 1280 << 10]).summary();
    let bins: Vec<_> = summary.bins_4k.iter().map(|bin| (bin.center_kib, bin.count)).collect();
    assert_eq!(bins, [(0, 2), (4, 3), (8, 2), (1024, 1), (1280, 1)]);
    assert!(summary.is_exact);
}

#[test]
fn figures_of_a_known_mix_are_exact() {
    let summary = of(&[4096, 4096, 4096, 8192, 65536]).summary();
    assert_eq!(summary.mode_bytes, Some(4096));
    assert_eq!(summary.median_bytes, Some(4096));
    assert_eq!(summary.p95_bytes, Some(65536));
    assert_eq!(summary.mean_bytes, Some(86016.0 / 5.0));
    assert_eq!(of(&[]).summary().median_bytes, None);
}

#[test]
fn too_many_odd_sizes_are_folded_and_counted() {
    let sizes: Vec<u32> = (0..20_000u32).map(|i| i * 214_741 + 1).collect();
    let all = of(&sizes);
    let summary = all.summary();
    assert!(!summary.is_exact);
    assert_eq!(summary.folded_ios, 20_000 - MOST_OTHER_SIZES as u64);
    assert_eq!(summary.exact.iter().map(|size| size.count).sum::<u64>(), 20_000);
    assert!(all.other.len() <= MOST_OTHER_SIZES + 4097);
}

proptest! {
    #[test]
    fn merged_parts_equal_the_whole(sizes in prop::collection::vec(any::<u32>(), 0..300), cut in 0.0f64..1.0) {
        let cut = (sizes.len() as f64 * cut) as usize;
        let mut merged = of(&sizes[..cut]);
        merged.merge(&of(&sizes[cut..]));
        prop_assert_eq!(merged.summary(), of(&sizes).summary());
    }
}
