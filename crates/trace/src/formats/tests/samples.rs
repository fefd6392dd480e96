//! The sample files in tests/data/formats.

use crate::event::Op;
use crate::open::open;
use crate::tests::{ReadTrace, read};
use std::path::PathBuf;

pub fn path(name: &str) -> String {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.extend(["..", "..", "tests", "data", "formats", name]);
    path.to_string_lossy().into_owned()
}

fn sample(name: &str) -> ReadTrace {
    read(&mut *open(&[path(name)], None).unwrap()).unwrap()
}

#[test]
fn each_sample_is_recognised_and_read_completely() {
    // (file, format, events, reads, writes among those queued)
    for (name, format, events, reads, writes) in [
        ("msr.csv", "msr", 24, 8, 4),
        ("alibaba.csv", "alibaba", 12, 5, 7),
        ("tencent.csv", "tencent", 12, 6, 6),
        ("systor17.csv", "systor17", 21, 6, 5),
        ("fiu.txt", "fiu", 12, 6, 6),
        ("vscsi1.bin", "vscsi", 11, 5, 4),
        ("vscsi2.bin", "vscsi", 22, 5, 4),
        ("oracle-general.bin", "oracle-general", 12, 12, 0),
        ("fio-v2.iolog", "iolog", 7, 2, 2),
        ("fio-v3.iolog", "iolog", 10, 4, 3),
        ("blkparse.txt", "blkparse", 19, 1, 0),
        ("blktrace.bin", "blktrace", 19, 1, 0),
        ("blktrace-be.bin", "blktrace", 19, 1, 0),
    ] {
        let trace = sample(name);
        assert_eq!(trace.info.format, format, "{name}");
        assert_eq!(trace.events.len(), events, "{name}");
        assert!(trace.events.is_sorted_by_key(|e| e.time), "{name}");
        assert_eq!(trace.events[0].time, 0, "{name}");
        let queued = trace.events.iter().filter(|e| e.action.letters() == "Q");
        let count = |op: Op| queued.clone().filter(|e| e.op() == op).count();
        assert_eq!((count(Op::Read), count(Op::Write)), (reads, writes), "{name}");
    }
}

#[test]
fn blkparse_text_prints_again_as_it_was() {
    let text = std::fs::read_to_string(path("blkparse.txt")).unwrap();
    let events = text.split("CPU0").next().unwrap();
    assert_eq!(sample("blkparse.txt").text, events);
}

#[test]
fn several_files_are_one_trace_in_order_of_time() {
    let directory = crate::tests::TestDirectory::new();
    let (mut rows, text) = ([String::new(), String::new()], std::fs::read_to_string(path("msr.csv")).unwrap());
    for (number, line) in text.lines().enumerate() {
        rows[number % 2] += &format!("{line}\n");
    }
    let paths = [directory.file("a.csv"), directory.file("b.csv")];
    for (path, rows) in paths.iter().zip(rows) {
        std::fs::write(path, rows).unwrap();
    }
    let parts = read(&mut *open(&paths, None).unwrap()).unwrap();
    let single_file = sample("msr.csv");
    assert_eq!(parts.info.inputs.len(), 2);
    assert_eq!(parts.info.start_unix_ns, single_file.info.start_unix_ns);
    let times = |trace: &ReadTrace| trace.events.iter().map(|e| (e.time, e.sector, e.action)).collect::<Vec<_>>();
    assert_eq!(times(&parts), times(&single_file));
}

#[test]
fn both_byte_orders_and_text_give_the_same_events() {
    let text = sample("blkparse.txt").text.replace("(null)", "kworker");
    for name in ["blktrace.bin", "blktrace-be.bin"] {
        assert_eq!(sample(name).text.replace("(null)", "kworker"), text, "{name}");
    }
}

#[test]
fn names_and_times_of_the_first_rows() {
    let msr = sample("msr.csv");
    assert_eq!(msr.info.device_names[0].1, "usr_0");
    assert_eq!(msr.info.start_unix_ns, Some(1_172_163_600_306_162_900));
    let (first, second) = (msr.events[0], msr.events[1]);
    assert_eq!((first.sector, first.bytes), (7_014_609_920 / 512, 24_576));
    assert_eq!(second.time, 1_000_700);
    let complete = msr.events.iter().find(|e| e.action.letters() == "C" && e.sector == first.sector);
    assert_eq!(complete.unwrap().time, 4_128_600);
    assert!(sample("fiu.txt").text.contains("[imap server]"));
    // fio waits until so many milliseconds after its start.
    let waited: Vec<u64> = sample("fio-v2.iolog").events.iter().map(|e| e.time / 1_000_000).collect();
    assert_eq!(waited, [0, 0, 20, 20, 20, 35, 35]);
    assert_eq!(sample("fio-v3.iolog").events[2].time, (10_078 - 102) * 1000);
    let flush = sample("vscsi2.bin").events.into_iter().find(|e| e.op() == Op::Flush);
    assert_eq!(flush.map(|e| (e.bytes, e.sector)), Some((0, 0)));
}
