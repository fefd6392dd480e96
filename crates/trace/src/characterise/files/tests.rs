use super::*;
use crate::characterise::chunk::QueuedIo;
use crate::event::{DeviceId, Rwbs};

fn io(sector: u64, sectors: u32, rwbs: Rwbs) -> QueuedIo {
    QueuedIo { time: 0, sector, bytes: sectors << 9, process: 0, source: DeviceId(0), rwbs, cpu: 0 }
}

fn counted(extents: &[(u64, u64, u32)], ios: &[QueuedIo]) -> Vec<(String, u64, u64, u64, u64)> {
    let owners = ["a", "b"].map(|name| (name.to_owned(), true)).to_vec();
    let filesystem = Filesystem::new("/srv".into(), vec!["8,0".into()], owners, extents.to_vec());
    let mut accesses = FileAccesses::new(Arc::new(filesystem));
    accesses.observe(&Chunk { queued: ios.to_vec(), ..Chunk::default() });
    let device = ProfiledDevice { number: "8,0", name: None, p50: None, process: &|process| format!("p{process}") };
    let files = accesses.profile(&device).unwrap().files;
    files.into_iter().map(|f| (f.name, f.reads, f.writes, f.read_bytes >> 9, f.write_bytes >> 9)).collect()
}

#[test]
fn an_io_counts_for_each_file_that_it_touches() {
    let extents = [(100, 200, 0), (200, 220, 1), (300, 400, 0)];
    let ios = [io(190, 40, Rwbs::READ), io(50, 300, Rwbs::WRITE), io(399, 1, Rwbs::WRITE), io(400, 8, Rwbs::READ)];
    let outside = "outside of the filesystem".to_owned();
    let expected =
        [("a".to_owned(), 1, 2, 10, 100 + 50 + 1), (outside, 2, 1, 10 + 8, 50 + 80), ("b".to_owned(), 1, 1, 20, 20)];
    assert_eq!(counted(&extents, &ios), expected);
}

#[test]
fn shared_sectors_count_once() {
    let extents = [(100, 200, 0), (150, 180, 1), (150, 250, 1)];
    let ios = [io(100, 150, Rwbs::READ), io(160, 1, Rwbs::DISCARD)];
    assert_eq!(counted(&extents, &ios), [("a".to_owned(), 1, 0, 100, 0), ("b".to_owned(), 1, 0, 50, 0)]);
}
