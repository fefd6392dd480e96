use super::*;
use crate::hash64;
use proptest::prelude::*;

#[test]
fn one_stream_is_one_run() {
    let mut streams = Streams::default();
    (0..1000).for_each(|io| streams.record(io * 8, 8));
    let summary = streams.summary();
    assert_eq!((summary.sequential_ios, summary.strictly_sequential_ios), (999, 999));
    assert_eq!((summary.runs, summary.run_ios.max), (1, Some(1000)));
    assert_eq!(summary.run_bytes.max, Some(4_096_000));
    assert_eq!(summary.peak_concurrent_streams, 1);
}

#[test]
fn interleaved_streams_are_found_among_noise() {
    let (mut streams, mut noise) = (Streams::default(), 0u64);
    for io in 0..500u64 {
        for stream in 0..40u64 {
            streams.record((stream << 30) + io * 16, 16);
            noise += 1;
            streams.record((1 << 50) + (hash64(noise) >> 20) * 8, 8);
        }
    }
    let summary = streams.summary();
    assert!(summary.sequential_ios >= 19_900, "{summary:?}");
    assert_eq!(summary.strictly_sequential_ios, 0);
    assert_eq!(summary.run_ios.max, Some(500));
    assert!((39..=41).contains(&summary.peak_concurrent_streams), "{summary:?}");
}

#[test]
fn streams_in_turn_are_not_concurrent() {
    let mut streams = Streams::default();
    for stream in 0..500u64 {
        (0..20).for_each(|io| streams.record((stream << 30) + io * 8, 8));
    }
    let summary = streams.summary();
    assert_eq!((summary.runs, summary.peak_concurrent_streams), (500, 1));
    assert_eq!(summary.run_ios.mean, Some(20.0));
}

#[test]
fn random_and_backward_ios_are_counted() {
    let mut random = Streams::default();
    (0..50_000u64).for_each(|io| random.record(hash64(io) >> 24 << 3, 8));
    let summary = random.summary();
    assert!(summary.sequential_ios < 10 && summary.runs > 49_990);
    assert_eq!(summary.peak_concurrent_streams, 0);
    let mut backward = Streams::default();
    (0..100u64).for_each(|io| backward.record((200 - io) * 8, 8));
    assert_eq!(backward.summary().backward_sequential_ios, 99);
}

proptest! {
    #[test]
    fn every_io_is_in_one_run(
        ios in prop::collection::vec((any::<u64>(), any::<u64>(), 0u32..64), 0..200), cut in 0usize..200,
    ) {
        let (mut streams, mut other) = (Streams::default(), Streams::default());
        for (index, &(sector, sectors, shift)) in ios.iter().enumerate() {
            let part = if index < cut { &mut streams } else { &mut other };
            part.record(sector >> shift, sectors >> shift);
        }
        streams.merge(&other);
        let summary = streams.summary();
        prop_assert_eq!(summary.runs + summary.sequential_ios, summary.ios);
    }
}
