use super::*;
use crate::tests::TestDirectory;

#[test]
fn drops_are_read_by_device_or_as_a_whole() {
    let directory = TestDirectory::new();
    let one_device = r#"{"dropped": 7, "devices": [{"name": "sda", "dropped": 7}]}"#;
    fs::write(directory.file("trace.blklab.json"), one_device).unwrap();
    assert_eq!(read_dropped_events(&directory.path().join("trace.blktrace.0"), "trace"), Some(7));
    let two_devices = r#"{"dropped": 9, "devices": [{"name": "sda", "dropped": 7}, {"name": "sdb", "dropped": null}]}"#;
    fs::write(directory.file("blklab.json"), two_devices).unwrap();
    assert_eq!(read_dropped_events(&directory.path().join("sda.blktrace.0"), "sda"), Some(7));
    assert_eq!(read_dropped_events(&directory.path().join("sdb.blktrace.0"), "sdb"), None);
    fs::write(directory.file("odd.blklab.json"), "not JSON").unwrap();
    assert_eq!(read_dropped_events(&directory.path().join("odd.blktrace.0"), "odd"), None);
}
