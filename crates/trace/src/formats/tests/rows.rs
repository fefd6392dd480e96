//! Tests that generated rows of the public formats are read back in order of time.

use crate::event::{Action, Event, SECTOR};
use crate::formats::row_source::WINDOW;
use crate::formats::{FORMATS, Format};
use crate::tests::{ReadTrace, read_bytes};
use proptest::collection::vec;
use proptest::prelude::*;

/// A request: time and response in the format's own unit, sector, sectors, a write, device, process.
type Request = (u64, u64, u64, u32, bool, u8);

type Print = fn(&mut Vec<u8>, usize, &Request);

/// Name, length of the time unit in ns, has response times, start of time, how a row is written.
const PRINTERS: [(&str, u64, bool, Print); 8] = [
    ("msr", 100, true, |out, _, &(t, r, s, n, w, d)| {
        let kind = if w { "Write" } else { "Read" };
        let (t, s, n) = (t + 128_166_372_000_000_000, s * SECTOR, u64::from(n) * SECTOR);
        out.extend(format!("{t},host{},{},{kind},{s},{n},{r}\r\n", d / 4, d % 4).bytes());
    }),
    ("alibaba", 1000, false, |out, _, &(t, _, s, n, w, d)| {
        let kind = if w { 'W' } else { 'R' };
        let (t, s, n) = (t + 1_577_808_000_000_000, s * SECTOR, u64::from(n) * SECTOR);
        out.extend(format!("{d},{kind},{s},{n},{t}\n").bytes());
    }),
    ("tencent", 1_000_000_000, false, |out, _, &(t, _, s, n, w, d)| {
        out.extend(format!("{},{s},{n},{},{d}\n", t + 1_538_323_200, u8::from(w)).bytes());
    }),
    ("systor17", 1, true, |out, index, &(t, r, s, n, w, d)| {
        if index == 0 {
            out.extend(b"Timestamp,Response,IOType,LUN,Offset,Size\n");
        }
        let (t, s, n) = (t + 1_455_592_200_000_000_000, s * SECTOR, u64::from(n) * SECTOR);
        let kind = if w { 'W' } else { 'R' };
        let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        out.extend(format!("{},{},{kind},{d},{s},{n}\n", seconds(t), seconds(r)).bytes());
    }),
    ("fiu", 1, false, |out, _, &(t, _, s, n, w, d)| {
        let kind = if w { 'W' } else { 'R' };
        out.extend(format!("{t} {d} some name {s} {n} {kind} 6 {d} 0cc175b9c0f1b6a8\n").bytes());
    }),
    ("vscsi", 1000, false, |out, index, &(t, _, s, n, w, _)| {
        out.extend((index as u32).to_le_bytes());
        out.extend((n * 512).to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend((if w { 0x2au16 } else { 0x28 }).to_le_bytes());
        out.extend(0x0100u16.to_le_bytes());
        out.extend(s.to_le_bytes());
        out.extend(t.to_le_bytes());
    }),
    ("vscsi", 1000, true, |out, index, &(t, r, s, n, w, _)| {
        out.extend((if w { 0x8au16 } else { 0x88 }).to_le_bytes());
        out.extend(0x0200u16.to_le_bytes());
        out.extend((index as u32).to_le_bytes());
        out.extend((n * 512).to_le_bytes());
        out.extend(1u32.to_le_bytes());
        out.extend(s.to_le_bytes());
        out.extend(t.to_le_bytes());
        out.extend(r.to_le_bytes());
    }),
    ("oracle-general", 1_000_000_000, false, |out, _, &(t, _, s, n, _, _)| {
        out.extend((t as u32).to_le_bytes());
        out.extend(s.to_le_bytes());
        out.extend((n * 512).to_le_bytes());
        out.extend((-1i64).to_le_bytes());
    }),
];

fn by_name(name: &str) -> &'static Format {
    FORMATS.iter().find(|f| f.name == name).unwrap()
}

fn of(trace: &ReadTrace, action: Action) -> Vec<Event> {
    trace.events.iter().filter(|e| e.action == action).copied().collect()
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = (0u64..500_000, 0u64..2_000_000, 0u64..1 << 40, 1u32..2048, any::<bool>(), any::<u8>());
    vec(request, 3..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_become_events(mut requests in requests(), which in 0..PRINTERS.len(), sorted in any::<bool>()) {
        let (name, unit, responds, print) = PRINTERS[which];
        // Binary formats are recognised by rising times; text rows can be in any order.
        let sorted = sorted || name == "vscsi" || name == "oracle-general";
        if sorted {
            requests.sort_by_key(|r| r.0);
        }
        let mut bytes = Vec::new();
        for (index, request) in requests.iter().enumerate() {
            print(&mut bytes, index, request);
        }
        let recognised = FORMATS.iter().find(|f| (f.sniff)(&bytes)).map(|f| f.name);
        prop_assert_eq!(recognised, Some(name));
        let trace = read_bytes(by_name(name), &bytes).unwrap();
        prop_assert_eq!(&trace.info.warnings, &[]);
        prop_assert_eq!(trace.info.out_of_order, 0);
        prop_assert_eq!(trace.info.bytes_read, bytes.len() as u64);
        prop_assert!(trace.events.is_sorted_by_key(|e| e.time));

        requests.sort_by_key(|r| r.0);
        let start = requests[0].0;
        let queued = of(&trace, Action::QUEUE);
        prop_assert_eq!(queued.len(), requests.len());
        for (event, &(time, _, sector, sectors, write, _)) in queued.iter().zip(&requests) {
            prop_assert_eq!(event.time, (time - start) * unit);
            prop_assert_eq!((event.sector, event.bytes), (sector, sectors * 512));
            prop_assert_eq!(event.op().name(), if write && name != "oracle-general" { "write" } else { "read" });
        }
        let completed = of(&trace, Action::COMPLETE);
        prop_assert_eq!(completed.len(), if responds { requests.len() } else { 0 });
        if responds {
            let mut times: Vec<u64> = requests.iter().map(|r| (r.0 - start + r.1) * unit).collect();
            times.sort();
            prop_assert_eq!(completed.iter().map(|e| e.time).collect::<Vec<_>>(), times);
        }
    }
}

#[test]
fn rows_may_come_late_by_the_window_and_no_more() {
    let text = |late: usize| -> Vec<u8> {
        let mut rows: Vec<usize> = (1..4 * WINDOW).collect();
        rows.insert(late, 0);
        rows.iter().flat_map(|t| format!("1,R,0,512,{}\n", 1_577_808_000_000_000 + t).into_bytes()).collect()
    };
    let within = read_bytes(by_name("alibaba"), &text(WINDOW - 1)).unwrap();
    assert!(within.events.is_sorted_by_key(|e| e.time));
    assert_eq!((within.info.out_of_order, within.events.len()), (0, 4 * WINDOW));
    let beyond = read_bytes(by_name("alibaba"), &text(3 * WINDOW)).unwrap();
    assert_eq!((beyond.info.out_of_order, beyond.events.len()), (1, 4 * WINDOW));
    assert!(beyond.info.warnings[0].message.contains("too late"), "{:?}", beyond.info.warnings);
}

#[test]
fn lines_that_cannot_be_read_are_counted_and_shown_with_their_numbers() {
    let text = b"1,R,0,512,5\n1,R,0,512\nnonsense\n1,X,0,512,6\n1,R,0,9999999999,7\n\n1,W,0,512,8\n";
    let trace = read_bytes(by_name("alibaba"), text).unwrap();
    assert_eq!(trace.events.len(), 2);
    let messages: Vec<&str> = trace.info.warnings.iter().map(|w| w.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "line 2: found \"1,R,0,512\", expected column 4: length in bytes, below 4 GiB; skipped",
            "line 3: found \"nonsense\", expected column 1: device_id, a whole number; skipped",
            "line 4: found \"1,X,0,512,6\", expected column 2: opcode, R or W; skipped",
            "4 lines in total could not be read; skipped",
        ]
    );
    let nothing = read_bytes(by_name("alibaba"), b"nonsense\n").err().unwrap().to_string();
    assert_eq!(nothing, "trace.x: line 1: found \"nonsense\", expected column 1: device_id, a whole number");
}
