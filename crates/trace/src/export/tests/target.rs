use crate::export::find_target;

#[test]
fn the_suffix_selects_the_target() {
    for (path, name) in [
        ("a.parquet", "parquet"),
        ("a.ios.parquet", "ios"),
        ("a.iolog", "iolog"),
        ("a.bin", "blktrace-merged"),
        ("elephant", "blktrace"),
    ] {
        assert_eq!(find_target(None, path).unwrap().name, name);
    }
    assert_eq!(find_target(Some("iolog2"), "x.parquet").unwrap().name, "iolog2");
    assert!(find_target(Some("csv"), "x").is_err());
}
