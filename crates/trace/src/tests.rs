//! Helpers for tests of readers and writers.

use crate::blkparse::line::write_line;
use crate::error::Result;
use crate::event::{Event, EventBatch};
use crate::formats::Format;
use crate::process::ProcessTable;
use crate::source::{OpenFile, OpenInput, Source, TraceInfo};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that is removed when it is dropped.
pub struct TestDirectory(PathBuf);

impl TestDirectory {
    /// A new, empty directory.
    pub fn new() -> TestDirectory {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("blklab-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TestDirectory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A path in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A trace read to its end.
#[derive(Debug, Default)]
pub struct ReadTrace {
    pub events: Vec<Event>, // The events, `pdu_start` and `input` set to 0
    pub pdus: Vec<Vec<u8>>, // Each event's extra bytes
    pub text: String,       // As blkparse prints them
    pub info: TraceInfo,
}

pub fn read(source: &mut dyn Source) -> Result<ReadTrace> {
    let mut trace = ReadTrace::default();
    let (mut batch, mut processes, mut text) = (EventBatch::default(), ProcessTable::default(), Vec::new());
    while source.fill(&mut batch)? {
        take(&batch, &mut processes, &mut trace, &mut text);
        batch.clear();
    }
    trace.info = source.info().clone();
    trace.text = String::from_utf8_lossy(&text).into_owned();
    Ok(trace)
}

fn take(batch: &EventBatch, processes: &mut ProcessTable, trace: &mut ReadTrace, text: &mut Vec<u8>) {
    let mut names = batch.names.iter().peekable();
    for (index, event) in batch.events.iter().enumerate() {
        while let Some(name) = names.next_if(|name| name.before <= index) {
            processes.learn(name.pid, &name.name);
        }
        write_line(text, event, batch.pdu_of(event), processes).unwrap();
        trace.events.push(Event { pdu_start: 0, input: 0, ..*event });
        trace.pdus.push(batch.pdu_of(event).to_vec());
    }
    for name in names {
        processes.learn(name.pid, &name.name);
    }
}

/// The trace that a batch contains.
pub fn trace_of(batch: &EventBatch) -> ReadTrace {
    let (mut trace, mut text) = (ReadTrace::default(), Vec::new());
    take(batch, &mut ProcessTable::default(), &mut trace, &mut text);
    trace.text = String::from_utf8_lossy(&text).into_owned();
    trace
}

/// An opened file that holds `bytes`.
pub fn file(path: &str, bytes: &[u8]) -> OpenFile {
    OpenFile {
        path: path.into(),
        head: bytes[..bytes.len().min(64 << 10)].to_vec(),
        reader: Box::new(Cursor::new(bytes.to_vec())),
    }
}

/// Reads `bytes` as one file of a format.
pub fn read_bytes(format: &Format, bytes: &[u8]) -> Result<ReadTrace> {
    let input = OpenInput { name: String::new(), files: vec![file("trace.x", bytes)] };
    read(&mut *format.open(vec![input])?)
}
