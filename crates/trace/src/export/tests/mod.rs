//! Tests that written traces are read back unchanged.

mod events;
mod output;
mod target;

use super::{BlktraceLayout, Exporter, IologVersion, blktrace, iolog, parquet_events, parquet_ios};
use crate::blktrace::record::tests::big_endian;
use crate::event::{Action, DeviceId, Event, EventBatch, Op, Rwbs};
use crate::filter::Filter;
use crate::open::open;
use crate::source::TraceInfo;
use crate::tests::{ReadTrace, TestDirectory, read, trace_of};
use proptest::prelude::*;

fn write(mut exporter: Box<dyn Exporter>, batch: &EventBatch, info: &TraceInfo) -> super::ExportReport {
    exporter.write(batch, info).unwrap();
    exporter.finish(info).unwrap()
}

fn read_path(path: &str) -> ReadTrace {
    read(&mut *open(&[path.to_owned()], None).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blktrace_binary_round_trips(batch in events::batch(), is_big in any::<bool>()) {
        let directory = TestDirectory::new();
        let info = TraceInfo { start_unix_ns: Some(1_600_000_000_123_456_789), ..TraceInfo::default() };
        let written = trace_of(&batch);
        for (name, layout) in [("set", BlktraceLayout::PerCpu), ("one", BlktraceLayout::Merged)] {
            let path = directory.file(name);
            let report = write(blktrace(path.as_ref(), layout, false).unwrap(), &batch, &info);
            prop_assert_eq!(report.written, batch.events.len() as u64);
            for file in report.files.iter().filter(|_| is_big) {
                std::fs::write(file, big_endian(&std::fs::read(file).unwrap())).unwrap();
            }
            let read_back = read_path(&path);
            prop_assert_eq!(&read_back.events, &written.events);
            prop_assert_eq!(&read_back.pdus, &written.pdus);
            prop_assert_eq!(read_back.info.start_unix_ns, info.start_unix_ns);
            prop_assert_eq!(&read_back.info.warnings, &[]);
            if layout == BlktraceLayout::Merged {
                prop_assert_eq!(&read_back.text, &events::text_with_all_names(&batch));
            }
        }
    }

    #[test]
    fn blkparse_text_round_trips(batch in events::batch()) {
        let written = trace_of(&batch);
        prop_assume!(!written.text.is_empty());
        let directory = TestDirectory::new();
        let path = directory.file("text");
        std::fs::write(&path, &written.text).unwrap();
        let read_back = read(&mut *open(&[path], Some("blkparse")).unwrap()).unwrap();
        prop_assert_eq!(&read_back.text, &written.text);
        prop_assert_eq!(&read_back.info.warnings, &[]);
    }

    #[test]
    fn iologs_round_trip(mut batch in events::batch()) {
        batch.events.retain(|event| event.action != Action::DISPATCH); // With many of them, I/Os begin with D
        let queued = |e: &&Event| e.action == Action::QUEUE
            && !e.rwbs.has(Rwbs::PASSTHROUGH)
            && (e.bytes > 0 || e.op() == Op::Flush);
        let expected: Vec<Event> = batch.events.iter().filter(queued).copied().collect();
        prop_assume!(!expected.is_empty());
        let directory = TestDirectory::new();
        for version in [IologVersion::V2, IologVersion::V3] {
            let path = directory.file("log");
            let report = write(iolog(path.as_ref(), version).unwrap(), &batch, &TraceInfo::default());
            prop_assert_eq!(report.written, expected.len() as u64);
            let read_back = read_path(&path).events;
            prop_assert_eq!(read_back.len(), expected.len());
            let start = expected[0].time / 1000;
            for (read_back, expected) in read_back.iter().zip(&expected) {
                let time = if version == IologVersion::V3 { (expected.time / 1000 - start) * 1000 } else { 0 };
                prop_assert_eq!(read_back.time, time);
                prop_assert_eq!((read_back.op(), read_back.bytes), (expected.op(), expected.bytes));
                prop_assert_eq!(read_back.device, expected.device);
                if expected.op() != Op::Flush {
                    prop_assert_eq!(read_back.sector, expected.sector);
                }
            }
        }
    }

    #[test]
    fn parquet_round_trips(batch in events::batch()) {
        let directory = TestDirectory::new();
        let path = directory.file("events.parquet");
        let info = TraceInfo {
            format: "blktrace".into(),
            start_unix_ns: Some(5),
            device_names: vec![(8 << 20, "usr 0".into())],
            ..TraceInfo::default()
        };
        write(parquet_events(path.as_ref()).unwrap(), &batch, &info);
        let read_back = read_path(&path);
        let written = trace_of(&batch);
        prop_assert_eq!(read_back.events, written.events);
        prop_assert_eq!(read_back.pdus, written.pdus);
        prop_assert_eq!(read_back.text, written.text);
        prop_assert_eq!(read_back.info.start_unix_ns, info.start_unix_ns);
        prop_assert_eq!(read_back.info.device_names, info.device_names);
    }
}

#[test]
fn a_set_is_not_mixed_with_an_older_one() {
    let directory = TestDirectory::new();
    let path = directory.file("x");
    let batch = EventBatch { events: vec![Event { cpu: 1, ..Event::default() }], ..EventBatch::default() };
    let export = || blktrace(path.as_ref(), BlktraceLayout::PerCpu, false);
    write(export().unwrap(), &batch, &TraceInfo::default());
    assert_eq!(std::fs::metadata(format!("{path}.blktrace.0")).unwrap().len(), 0);
    assert!(export().err().unwrap().to_string().contains("x.blktrace.0: exists"));
}

#[test]
fn names_in_an_iolog_stay_in_the_directory_where_fio_runs() {
    let directory = TestDirectory::new();
    let path = directory.file("log");
    let device = DeviceId::new(240, 0);
    let event = Event { device, bytes: 4096, rwbs: Rwbs::WRITE, action: Action::QUEUE, ..Event::default() };
    let batch = EventBatch { events: vec![event], ..EventBatch::default() };
    let info = TraceInfo { device_names: vec![(device.0, "../../dev/sda x".into())], ..TraceInfo::default() };
    write(iolog(path.as_ref(), IologVersion::V3).unwrap(), &batch, &info);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("1 _.._dev_sda_x write 0 4096\n"), "{text}");
}

#[test]
fn ios_are_not_taken_for_events() {
    let directory = TestDirectory::new();
    let path = directory.file("ios.parquet");
    let event = Event {
        device: DeviceId(1),
        sector: 8,
        bytes: 512,
        rwbs: Rwbs::READ,
        action: Action::QUEUE,
        ..Event::default()
    };
    let batch = EventBatch { events: vec![event; 3], ..EventBatch::default() };
    let exporter = parquet_ios(path.as_ref(), Filter::default()).unwrap();
    assert_eq!(write(exporter, &batch, &TraceInfo::default()).written, 3);
    let refused = open(&[path], None).err().unwrap().to_string();
    assert!(refused.contains("holds I/Os, not events"), "{refused}");
}

#[test]
fn what_cannot_be_written_is_named() {
    for path in ["/nonexistent/x", "/proc/x"] {
        let refused = parquet_events(path.as_ref()).err().unwrap().to_string();
        assert!(refused.starts_with(path), "{refused}");
    }
}
