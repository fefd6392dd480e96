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

/// Makes a FIFO; coreutils are everywhere.
fn make_fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_fifo_without_a_writer_is_given_up() {
    let directory = TestDirectory::new();
    let path = directory.path().join("fifo");
    make_fifo(&path);
    let error = open_fifo(&path, Duration::from_millis(10)).unwrap_err();
    assert_eq!(error.to_string(), "it is a FIFO, and no program has opened it to write for 0.01 s");
}

#[test]
fn a_fifo_with_a_writer_is_read() {
    let directory = TestDirectory::new();
    let path = directory.path().join("fifo");
    make_fifo(&path);
    let writer = {
        let path = path.clone();
        thread::spawn(move || fs::write(path, "8,0").unwrap())
    };
    let mut content = String::new();
    open_fifo(&path, FIFO_WAIT).unwrap().read_to_string(&mut content).unwrap();
    writer.join().unwrap();
    assert_eq!(content, "8,0");
}

#[test]
fn an_archive_that_expands_without_end_is_refused() {
    let directory = TestDirectory::new();
    let path = directory.path().join("bomb.tar.gz").to_string_lossy().into_owned();
    fs::write(&path, [0; 10]).unwrap();
    assert_eq!(largest_archive(&path), ALWAYS_EXPANDED);
    fs::write(&path, vec![0; 6 << 20]).unwrap();
    assert_eq!(largest_archive(&path), 1200 << 20);
    let mut copy = File::create(directory.path().join("copy")).unwrap();
    let error = copy_archive(&path, &mut io::repeat(0), &mut copy, 5000).unwrap_err();
    assert!(error.to_string().contains("expands to more than 200 times its size"), "{error}");
    assert_eq!(copy.metadata().unwrap().len(), 5001);
}
