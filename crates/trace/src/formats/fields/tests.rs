use super::*;

#[test]
fn numbers_end_at_other_characters_and_must_fit() {
    let mut fields = Fields::new(b"18446744073709551615,x");
    assert_eq!(fields.number(), Some(u64::MAX));
    assert_eq!(fields.byte(b','), Some(()));
    assert_eq!(fields.number(), None);
    assert_eq!(Fields::new(b"18446744073709551616").number(), None);
    assert_eq!(Fields::new(b"4294967296").number32(), None);
    assert_eq!(whole_number(b"12 "), None);
}

#[test]
fn decimals_scale() {
    assert_eq!(Fields::new(b"1.5").decimal(9), Some(1_500_000_000));
    assert_eq!(Fields::new(b"7").decimal(3), Some(7000));
    assert_eq!(Fields::new(b"0.1234567899").decimal(9), Some(123_456_789));
    assert_eq!(Fields::new(b"99999999999999").decimal(9), None);
    assert_eq!(Fields::new(b".5").decimal(9), None);
}
