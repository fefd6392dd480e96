use super::*;

/// Copies for each written page, over a second disk's worth of random writes.
fn amplification(over_provisioning: f64, fill: f64, hot: f64) -> f64 {
    let capacity = 2 << 30;
    let mut map = Translation::new(&FlashUse { capacity, over_provisioning, fill });
    let (mut random, pages) = (Rng::new(7), (capacity as f64 * fill) as u64 / PAGE_BYTES);
    for index in 0..6 * pages {
        if index == 4 * pages {
            map.copies = 0;
        }
        // A tenth of the pages gets the share `hot` of the writes.
        let tenth = random.below(1000) < (hot * 1000.0) as u64;
        let page = if tenth { random.below(pages / 10) } else { random.below(pages) };
        map.write(page * PAGE_BYTES * map.scale, PAGE_BYTES);
    }
    1.0 + map.copies as f64 / (2 * pages) as f64
}

/// Greedy collection under uniform random writes, for large blocks: α / (α + W(-α e^-α)), α = 1 + over-provisioning
/// (Desnoyers 2014, section 4; W is Lambert's function).
fn expected(over_provisioning: f64) -> f64 {
    let alpha = 1.0 + over_provisioning;
    let target = alpha * (-alpha).exp();
    // The other solution of x e^-x = α e^-α, below 1, by bisection.
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if middle * (-middle).exp() < target { low = middle } else { high = middle }
    }
    alpha / (alpha - low)
}

#[test]
fn copies_are_those_of_the_analysis_of_greedy_collection() {
    assert!((expected(0.07) - 7.8).abs() < 0.1 && (expected(0.28) - 2.5).abs() < 0.05);
    for over_provisioning in [0.07, 0.145, 0.28] {
        let (found, analysis) = (amplification(over_provisioning, 1.0, 0.0), expected(over_provisioning));
        assert!((found / analysis - 1.0).abs() < 0.05, "{over_provisioning}: {found} instead of {analysis}");
    }
}

#[test]
fn free_space_is_spare() {
    // 80 % of the pages with data: the rest of the flash is spare.
    let (found, analysis) = (amplification(0.07, 0.8, 0.0), expected(1.07 / 0.8 - 1.0));
    assert!((found / analysis - 1.0).abs() < 0.05, "{found} instead of {analysis}");
}

/// The same with the oldest block erased first, when a share `hot` of the writes goes to a tenth of the pages: in a
/// pass of x disks' worth of writes, a page with the rate λ is written λ x / (1 - e^-λx) times, copies included (Desnoyers 2014,
/// section 5). With x the sum is 1 + over-provisioning.
fn expected_of_oldest_first(over_provisioning: f64, hot: f64) -> f64 {
    let rates = [(0.1, 1.0 - hot + hot / 0.1), (0.9, 1.0 - hot)];
    let written = |x: f64| rates.iter().map(|&(share, rate)| share * rate * x / (1.0 - (-rate * x).exp())).sum::<f64>();
    let (mut low, mut high) = (1e-6f64, 10.0f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if written(middle) < 1.0 + over_provisioning { low = middle } else { high = middle }
    }
    (1.0 + over_provisioning) / low
}

#[test]
fn skewed_writes_copy_more_but_less_than_without_choosing_blocks() {
    assert!((expected_of_oldest_first(0.1, 0.0) / expected(0.1) - 1.0).abs() < 0.01);
    let (uniform, skewed) = (amplification(0.1, 1.0, 0.0), amplification(0.1, 1.0, 0.9));
    assert!(uniform * 1.05 < skewed && skewed < expected_of_oldest_first(0.1, 0.9), "{uniform}, {skewed}");
}

#[test]
fn discarded_pages_are_not_copied() {
    let capacity = 512 << 20;
    let mut map = Translation::new(&FlashUse { capacity, over_provisioning: 0.07, fill: 1.0 });
    map.discard(0, capacity / 2);
    let pages = capacity / PAGE_BYTES / 2;
    let mut random = Rng::new(3);
    // After the discard as many blocks are nearly empty as half a disk needs.
    map.copies = 0;
    (0..pages / 4).for_each(|_| map.write_page((pages + random.below(pages)) as u32));
    assert!(map.copies * 10 < pages * 4, "{} copies", map.copies);
}

#[test]
fn a_large_disk_is_a_miniature() {
    let mut map = Translation::new(&FlashUse { capacity: 3_840_755_982_336, over_provisioning: 0.07, fill: 1.0 });
    assert!(map.scale % 2 == 1 && map.scale > 1700);
    let mut random = Rng::new(5);
    let pages = 3_840_755_982_336 / PAGE_BYTES;
    let copied: f64 = (0..100_000).map(|_| map.write(random.below(pages) * PAGE_BYTES, PAGE_BYTES)).sum();
    let amplification = 1.0 + copied / (100_000 * PAGE_BYTES) as f64;
    assert!((amplification / expected(0.07) - 1.0).abs() < 0.05, "{amplification}");
}
