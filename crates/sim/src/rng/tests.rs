use super::*;

#[test]
fn a_seed_always_gives_the_same_numbers() {
    let mut rng = Rng::new(1);
    assert_eq!([rng.next(), rng.next()], [0xcfc5_d07f_6f03_c29b, 0xbf42_4132_963f_e08d]);
}

#[test]
fn numbers_are_spread_evenly() {
    let mut rng = Rng::new(7);
    let mut bins = [0u32; 10];
    for _ in 0..100_000 {
        bins[rng.below(10) as usize] += 1;
    }
    assert!(bins.iter().all(|&n| (9_500..10_500).contains(&n)), "{bins:?}");
    let mean: f64 = (0..100_000).map(|_| rng.normal()).sum::<f64>() / 100_000.0;
    assert!(mean.abs() < 0.02, "{mean}");
}
