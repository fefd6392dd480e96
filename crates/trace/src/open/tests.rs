use super::*;
use crate::tests::TestDirectory;

#[test]
fn drops_are_read_by_device_or_as_a_whole() {
    let directory = TestDirectory::new();
    let one_device = r#"{"dropped": 7, "devices": [{"name": "sda", "dropped": 7}]}"#;
    fs::write(directory.file("trace.blklab.json"), one_device).unwrap();
    assert_eq!(read_sidecar(&directory.path().join("trace.blktrace.0"), "trace").dropped, Some(7));
    let two_devices = r#"{"dropped": 9, "devices": [{"name": "sda", "dropped": 7}, {"name": "sdb", "dropped": null}]}"#;
    fs::write(directory.file("blklab.json"), two_devices).unwrap();
    assert_eq!(read_sidecar(&directory.path().join("sda.blktrace.0"), "sda").dropped, Some(7));
    assert_eq!(read_sidecar(&directory.path().join("sdb.blktrace.0"), "sdb").dropped, None);
    let stack =
        r#"{"stack": [{"number": "253:1", "label": "vg0/home", "above": ["md127"], "size": 5}], "devices": []}"#;
    fs::write(directory.file("home.blklab.json"), stack).unwrap();
    let found = read_sidecar(&directory.path().join("home.blktrace.0"), "home").stack;
    assert_eq!((found[0].label.as_str(), found[0].above.len(), &found[0].role), ("vg0/home", 1, &None));
    fs::write(directory.file("odd.blklab.json"), "not JSON").unwrap();
    assert_eq!(read_sidecar(&directory.path().join("odd.blktrace.0"), "odd").dropped, None);
}
