use crate::export::*;

#[test]
fn a_file_appears_only_when_it_is_complete() {
    let directory = crate::tests::TestDirectory::new();
    let path = directory.path().join("out");
    let mut output = OutputFile::create(&path).unwrap();
    output.put(b"half").unwrap();
    drop(output);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let mut output = OutputFile::create(&path).unwrap();
    output.put(b"whole").unwrap();
    assert!(!path.exists());
    assert_eq!(output.commit().unwrap().1, 5);
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn directories_are_refused_and_devices_not_replaced() {
    let directory = crate::tests::TestDirectory::new();
    let refused = OutputFile::create(directory.path()).err().unwrap();
    assert!(refused.to_string().contains("directory"), "{refused}");
    let mut null = OutputFile::create(Path::new("/dev/null")).unwrap();
    null.put(b"x").unwrap();
    null.commit().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}
