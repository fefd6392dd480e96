use super::*;

#[test]
fn ranks_get_the_shares_that_fio_gives_them() {
    // Reads of the lowest ranks among 102,400 of 4,096 blocks by fio 3.33, `random_distribution=zipf:1.2`.
    let by_fio = [(1, 21_845), (2, 31_445), (3, 38_514), (10, 56_471), (100, 80_707), (1000, 96_020)];
    let (zipf, mut rng) = (ZipfRanks::new(4096, 1.2), Rng::new(3));
    let mut counts = [0u32; 4096];
    (0..102_400).for_each(|_| counts[zipf.rank(&mut rng) as usize] += 1);
    for (ranks, expected) in by_fio {
        let count: u32 = counts[..ranks].iter().sum();
        assert!(count.abs_diff(expected) < 600, "{ranks} ranks: {count}, by fio {expected}");
    }
    let exact: f64 = (1..=100_000).map(|k| f64::from(k).powf(-1.2)).sum();
    assert!((zeta(100_000, 1.2) - exact).abs() < 1e-6);
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
            let offsets = Offsets::new(distribution, blocks, 0, 0);
            assert!((0..1000).all(|_| offsets.next(blocks, &mut rng) < blocks), "{distribution:?}");
        }
    }
}

#[test]
fn ranks_are_scattered_as_by_fio() {
    // The first blocks of 64 that fio 3.33 reads are those of the lowest ranks: 43 from one to the next.
    let places: Vec<u64> = (0..64).map(|rank| scattered(rank, 7, 64)).collect();
    assert_eq!(places[..4], [7, 50, 29, 8]);
    let mut sorted = places;
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..64));
}

#[test]
fn zones_get_their_accesses() {
    let offsets = Offsets::new(&Distribution::Zoned { zones: vec![(60.0, 10.0), (40.0, 90.0)] }, 1000, 0, 0);
    let mut rng = Rng::new(1);
    let inside = (0..10_000).filter(|_| offsets.next(1000, &mut rng) < 100).count();
    assert!((5_800..6_200).contains(&inside), "{inside}");
}

#[test]
fn a_pass_visits_every_block_once_in_random_order() {
    for blocks in [1u64, 2, 3, 7, 64, 1000, 65_537] {
        let mut rng = Rng::new(blocks);
        for map in [RandomMap::Repeated, RandomMap::Reshuffled] {
            let mut passes = Passes::new(map, blocks, &mut rng).unwrap();
            let mut pass = || (0..blocks).map(|_| passes.next(blocks, &mut rng)).collect::<Vec<_>>();
            let (first, second) = (pass(), pass());
            for order in [&first, &second] {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..blocks), "{blocks} {map:?}");
            }
            assert!((first == second) == (map == RandomMap::Repeated) || blocks < 64, "{blocks} {map:?}");
        }
    }
    assert!(Passes::new(RandomMap::Off, 1000, &mut Rng::new(1)).is_none());
}

#[test]
fn the_order_of_a_pass_looks_random() {
    // Distances between neighbours, and the members of a stripe of 8, must be spread as evenly as independent draws:
    // χ² with 63 degrees of freedom exceeds 104 once in a thousand.
    for (seed, blocks) in (0..20).zip([1u64 << 16, 100_000, 1 << 21, 3_000_000, 1 << 31].into_iter().cycle()) {
        let mut rng = Rng::new(seed);
        let mut passes = Passes::new(RandomMap::Reshuffled, blocks, &mut rng).unwrap();
        let mut counts = [[0f64; 64]; 3];
        let mut last = 0;
        for _ in 0..6_400 {
            let block = passes.next(blocks, &mut rng);
            let distance = (block + blocks - last) % blocks;
            counts[0][(block * 64 / blocks) as usize] += 1.0;
            counts[1][(distance * 64 / blocks) as usize] += 1.0;
            counts[2][(block % 8 * 8 + last % 8) as usize] += 1.0;
            last = block;
        }
        for (name, counts) in ["positions", "distances", "stripes"].iter().zip(counts) {
            let chi: f64 = counts.iter().map(|count| (count - 100.0).powi(2) / 100.0).sum();
            assert!(chi < 120.0, "{name} of {blocks} blocks, seed {seed}: χ² {chi}");
        }
    }
}
