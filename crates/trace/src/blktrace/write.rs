//! Writing blktrace binary: events and notes as records.

use super::record::{MAGIC, NOTE_MESSAGE, NOTE_PROCESS, NOTE_TIMESTAMP, Record};
use crate::event::{Action, Event, EventBatch, Rwbs};
use std::io::{self, Write};

/// Writes an event's record with its payload: derived from its fields, or as kept in the batch.
pub fn write_event(out: &mut impl Write, event: &Event, batch: &EventBatch) -> io::Result<()> {
    let derived = event.payload();
    let pdu = if derived.is_empty() { batch.pdu_of(event) } else { &derived };
    match event.action {
        Action::MESSAGE => write_record(out, event, event.rwbs.with(Rwbs::NOTIFY), NOTE_MESSAGE, pdu),
        action => write_record(out, event, event.rwbs, action.0.into(), pdu),
    }
}

/// Writes the note that names a process; the name is cut to the kernel's 15 bytes.
pub fn write_process(out: &mut impl Write, at: &Event, pid: u32, name: &[u8]) -> io::Result<()> {
    let mut pdu = [0; 16];
    let len = name.len().min(15);
    pdu[..len].copy_from_slice(&name[..len]);
    let note = Event { time: at.time, pid, device: at.device, cpu: at.cpu, ..Event::default() };
    write_record(out, &note, Rwbs::NOTIFY, NOTE_PROCESS, &pdu)
}

/// Writes the note that ties the record time 0 to the wall clock.
pub fn write_timestamp(out: &mut impl Write, at: &Event, unix_ns: u64) -> io::Result<()> {
    let words = [unix_ns / 1_000_000_000, unix_ns % 1_000_000_000].map(|word| (word as u32).to_le_bytes());
    let note = Event { device: at.device, cpu: at.cpu, ..Event::default() };
    write_record(out, &note, Rwbs::NOTIFY, NOTE_TIMESTAMP, words.as_flattened())
}

fn write_record(out: &mut impl Write, event: &Event, rwbs: Rwbs, code: u32, pdu: &[u8]) -> io::Result<()> {
    let record = Record {
        magic: MAGIC,
        sequence: event.sequence,
        time: event.time,
        sector: event.sector,
        bytes: event.bytes,
        action: u32::from(rwbs.0) << 16 | code,
        pid: event.pid,
        device: event.device.0,
        cpu: u32::from(event.cpu),
        error: event.error,
        pdu_len: pdu.len() as u16,
    };
    out.write_all(&record.encode())?;
    out.write_all(pdu)
}
