use super::*;
use crate::event::{Action, Event, EventBatch};
use crate::source::OpenFile;
use proptest::prelude::*;
use std::io::Cursor;

fn opened(text: &str, columns: &str) -> Result<Box<dyn Source>> {
    let (head, reader) = (text.as_bytes().to_vec(), Box::new(Cursor::new(text.as_bytes().to_vec())));
    let file = OpenFile { path: "t".into(), head, reader };
    super::super::open_table(vec![OpenInput { name: "t".into(), files: vec![file] }], columns)
}

fn events(text: &str, columns: &str) -> (Vec<Event>, TraceInfo) {
    let mut source = opened(text, columns).unwrap();
    let mut batch = EventBatch::default();
    while source.fill(&mut batch).unwrap() {}
    (batch.events, source.info().clone())
}

#[test]
fn biosnoop_times_are_completions_and_names_can_have_spaces() {
    let text = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)\n\
                0.000500    tokio runtime  174     nvme0n1   W 116926024  4096      0.12\n\
                0.001000    jbd2/sda-8     9       sda       R 8          512       0.25\n";
    let head = text.as_bytes();
    assert!((FORMAT.sniff)(head));
    let (events, info) = events(text, BIOSNOOP);
    let row = |event: &Event| (event.time, event.action, event.sector, event.bytes, event.pid);
    assert_eq!(row(&events[0]), (0, Action::DISPATCH, 116_926_024, 4096, 174));
    assert_eq!(row(&events[1]), (120_000, Action::COMPLETE, 116_926_024, 4096, 174));
    assert_eq!(row(&events[2]), (370_000, Action::DISPATCH, 8, 512, 9));
    assert!(events[0].rwbs.has(Rwbs::WRITE) && events[2].rwbs.has(Rwbs::READ));
    assert_eq!(info.device_names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["nvme0n1", "sda"]);
    assert_eq!(info.capabilities.clock_ns, Some(1000));
    assert!(info.capabilities.completions && info.warnings.is_empty());
}

#[test]
fn the_queue_column_of_biosnoop_is_the_time_before_dispatch() {
    let text = "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)
1.0 dd 7 sda R 8 512 0.5 0.25
2.0 dd 7 sda R 16 512 0 1
";
    let (events, _) = events(text, &format!("{BIOSNOOP},{BIOSNOOP_QUEUE}"));
    let seen: Vec<_> = events.iter().map(|event| (event.time / 1000, event.action)).collect();
    let (queued, dispatched, completed) = (Action::QUEUE, Action::DISPATCH, Action::COMPLETE);
    let first = [(0, queued), (500, dispatched), (750, completed)];
    assert_eq!((&seen[..3], &seen[3..5]), (&first[..], &[(999_750, queued), (999_750, dispatched)][..]));
}

#[test]
fn lines_before_the_header_are_skipped_and_units_come_from_headers_or_the_option() {
    let text = "Attaching 3 probes...\nwhen_us;kind;off;\"n;o\"\n10;WS;1024;8\n12;discard;0;1\n";
    let (events, info) = events(text, "time=when_us,op=kind,offset=off,sectors=4");
    assert_eq!(events.iter().map(|e| (e.time, e.sector, e.bytes)).collect::<Vec<_>>(), [(0, 2, 4096), (2000, 0, 512)]);
    assert!(events[0].rwbs.has(Rwbs::SYNC) && events[1].rwbs.has(Rwbs::DISCARD));
    assert!(info.capabilities.directions && !info.capabilities.completions && !info.capabilities.processes);
    let (events, _) = self::events("5,0,1\n7,0,1\n", "time=1:ms,sector=2,sectors=3");
    assert_eq!(events[1].time, 2_000_000);
    assert_eq!(parse_time(b"01:00:01.5", UNITS[0].1), Some(3_601_500_000_000));
}

#[test]
fn bad_columns_and_rows_are_named() {
    let error = |text, columns| opened(text, columns).err().unwrap().to_string();
    let text = "ts,lba,len\n1,2,3\n";
    assert!(error(text, "time=ts,sector=lba").ends_with("expected either size= or sectors="));
    assert!(error(text, "time=ts,sector=lba,length=len").contains("\"length\": expected one of time, end, op"));
    assert!(error(text, "end=ts,sector=lba,size=len").ends_with("end= needs latency= or service="));
    assert!(error(text, "time").contains("\"time\": expected ROLE=COLUMN"));
    let missing = error(text, "time=when,sector=lba,size=len");
    assert_eq!(missing, "t: header: no line has the columns when, lba, len; the first line has ts, lba, len");
    let (events, info) = events("ts,lba,len\n1,2,3\n2,x,3\n", "time=ts,sector=lba,size=len");
    assert_eq!(events.len(), 1);
    assert!(info.warnings[0].message.contains("expected a whole number in the column of sector= or offset="));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[ -~\n\t]{0,300}", columns in "(time|end|op|size)=[1-9a-z](:ms)?") {
        let columns = format!("{columns},time=1,sector=2,size=3,latency=1,process=2");
        if let Ok(mut source) = opened(&text, &columns) {
            let mut batch = EventBatch::default();
            while source.fill(&mut batch).unwrap_or(false) {}
        }
    }
}
