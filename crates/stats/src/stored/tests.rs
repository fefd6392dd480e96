use crate::{Stored, StoredBytes};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Everything = (Vec<(u16, u64)>, (u128, i64, Option<String>), BTreeMap<u32, [bool; 3]>);

proptest! {
    #[test]
    fn values_return_as_they_were(value: Everything) {
        let mut bytes = Vec::new();
        value.store(&mut bytes);
        let mut input = StoredBytes(&bytes);
        prop_assert_eq!(Everything::restore(&mut input), Some(value));
        prop_assert!(input.0.is_empty());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = Everything::restore(&mut StoredBytes(&bytes));
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    assert_eq!(u16::restore(&mut StoredBytes(&[0xff, 0xff, 0x03])), Some(u16::MAX));
    assert_eq!(u16::restore(&mut StoredBytes(&[0xff, 0xff, 0x04])), None);
    assert_eq!(u64::restore(&mut StoredBytes(&[0xff; 11])), None);
    assert_eq!(Vec::<u8>::restore(&mut StoredBytes(&[200, 200, 200, 1])), None);
}
