use super::*;

#[test]
fn versions_are_read_with_any_suffix() {
    assert_eq!(Kernel::parse("4.19").unwrap(), Kernel(4, 19));
    assert_eq!(Kernel::parse("2.6.24-etchnhalf").unwrap(), Kernel(2, 6));
    assert!(Kernel::parse("5.3.0+").unwrap().raid10_prefers_idle());
    assert!(!Kernel::parse("5.2").unwrap().raid10_prefers_idle());
    for text in ["", "4", "four", "1.2", "42.0", "4."] {
        assert!(Kernel::parse(text).is_err(), "{text}");
    }
}

#[test]
fn kernels_after_6_12_differ() {
    let kernel = |text| Kernel::parse(text).unwrap();
    for (text, keeps, yields) in
        [("6.1", false, false), ("6.12", true, false), ("6.14", false, false), ("6.15", true, false)]
    {
        assert_eq!((kernel(text).mirrors_keep_flags(), kernel(text).resync_yields()), (keeps, yields), "{text}");
    }
    assert!(kernel("7.3").mirrors_keep_flags() && kernel("7.3").resync_yields());
}
