use super::*;
use crate::tests::popularity_of;

#[test]
fn shares_of_a_known_spread_are_exact() {
    // One block of 50 and ten of 5.
    let spread = popularity_of([50, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 0]);
    assert_eq!((spread.blocks, spread.accesses), (11.0, 100.0));
    let shares = spread.shares(&[0.0, 1.0 / 11.0, 6.0 / 11.0, 1.0]);
    let io_shares: Vec<_> = shares.iter().map(|share| (share.io_share * 1000.0).round()).collect();
    assert_eq!(io_shares, [0.0, 500.0, 750.0, 1000.0]);
    assert_eq!(spread.curve(64).last().unwrap().io_share, 1.0);
    assert!(Popularity::default().curve(64).is_empty());
}
