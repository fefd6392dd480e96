//! Helpers of the fuzz targets: read a trace to its end and check what must hold for any bytes.

use blklab_trace::blkparse::line::write_line;
use blklab_trace::event::EventBatch;
use blklab_trace::formats::Format;
use blklab_trace::process::ProcessTable;
use blklab_trace::source::{OpenFile, OpenInput, TraceInfo};
use std::io::{Cursor, sink};

/// A file that holds `bytes`.
pub fn file(path: &str, bytes: &[u8]) -> OpenFile {
    OpenFile {
        path: path.into(),
        head: bytes[..bytes.len().min(64 << 10)].to_vec(),
        reader: Box::new(Cursor::new(bytes.to_vec())),
    }
}

/// Reads to the end. For any bytes, reading ends, and the output is bounded by the input.
pub fn read(format: &Format, inputs: Vec<OpenInput>, length: usize) {
    let Ok(mut source) = format.open(inputs) else { return };
    let (mut batch, mut processes) = (EventBatch::default(), ProcessTable::default());
    let (mut events, mut extra) = (0, 0);
    loop {
        batch.clear();
        match source.fill(&mut batch) {
            Ok(true) => {}
            Ok(false) | Err(_) => break,
        }
        for name in &batch.names {
            processes.learn(name.pid, &name.name);
        }
        for event in &batch.events {
            let written = write_line(&mut sink(), event, batch.pdu_of(event), &processes);
            assert!(written.is_ok());
        }
        events += batch.events.len();
        extra += batch.pdu.len() + batch.names.iter().map(|name| name.name.len()).sum::<usize>();
        assert!(batch.events.len() <= 16 * EventBatch::TARGET, "{}: a batch that large", format.name);
    }
    // The shortest row is longer than ten bytes and gives two events; a byte that is not text becomes three.
    assert!(events <= length, "{}: {events} events from {length} bytes", format.name);
    assert!(extra <= 4 * length + 64, "{}: {extra} bytes kept from {length}", format.name);
    assert!(source.info().warnings.len() <= TraceInfo::MAX_WARNINGS);
}
