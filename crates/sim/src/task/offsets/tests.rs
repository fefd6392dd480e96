use super::*;

#[test]
fn zipf_gives_each_rank_its_share() {
    for theta in [0.8, 1.0, 1.2] {
        let zipf = ZipfRanks::new(1000, theta);
        let mut rng = Rng::new(3);
        let mut counts = [0u32; 1000];
        for _ in 0..200_000 {
            counts[zipf.rank(&mut rng) as usize] += 1;
        }
        let all: f64 = (1..=1000).map(|k| f64::from(k).powf(-theta)).sum();
        for rank in [1u32, 2, 10] {
            let expected = 200_000.0 * f64::from(rank).powf(-theta) / all;
            let count = f64::from(counts[rank as usize - 1]);
            assert!((count / expected - 1.0).abs() < 0.1, "theta {theta} rank {rank}: {count} {expected}");
        }
    }
}

#[test]
fn every_distribution_stays_in_the_region() {
    let all = [
        Distribution::Random,
        Distribution::Zipf { theta: 1.2 },
        Distribution::Pareto { h: 0.3 },
        Distribution::Normal { deviation: 20.0 },
        Distribution::Zoned { zones: vec![(60.0, 10.0), (40.0, 90.0)] },
    ];
    let mut rng = Rng::new(1);
    for distribution in &all {
        for blocks in [1, 7, 1 << 31] {
            let offsets = Offsets::new(distribution, blocks);
            assert!((0..1000).all(|_| offsets.next(blocks, &mut rng) < blocks), "{distribution:?}");
        }
    }
}

#[test]
fn zones_get_their_accesses() {
    let offsets = Offsets::new(&Distribution::Zoned { zones: vec![(60.0, 10.0), (40.0, 90.0)] }, 1000);
    let mut rng = Rng::new(1);
    let inside = (0..10_000).filter(|_| offsets.next(1000, &mut rng) < 100).count();
    assert!((5_800..6_200).contains(&inside), "{inside}");
}
