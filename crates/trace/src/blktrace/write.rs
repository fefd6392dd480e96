//! Writing blktrace binary: events and notes as records.

use super::record::{ByteOrder, MAGIC, NOTE_MESSAGE, NOTE_PROCESS, NOTE_TIMESTAMP, Record};
use crate::event::{Action, DeviceId, Event, EventBatch, Rwbs};
use std::io::{self, Write};

/// Writes an event's record with its payload: derived from its fields, or as kept in the batch.
pub fn write_event(out: &mut impl Write, order: ByteOrder, event: &Event, batch: &EventBatch) -> io::Result<()> {
    let derived;
    let pdu = match event.action {
        Action::REMAP | Action::SPLIT | Action::UNPLUG | Action::UNPLUG_TIMER => {
            derived = event.payload();
            &derived
        }
        _ => batch.pdu_of(event),
    };
    let code = if event.action == Action::MESSAGE { NOTE_MESSAGE } else { u32::from(event.action.0) };
    let rwbs = if event.action == Action::MESSAGE { event.rwbs.with(Rwbs::NOTIFY) } else { event.rwbs };
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
    out.write_all(&record.encode(order))?;
    out.write_all(pdu)
}

/// Writes the note that names a process; the name is cut to the kernel's 15 bytes.
pub fn write_process(out: &mut impl Write, order: ByteOrder, at: &Event, pid: u32, name: &[u8]) -> io::Result<()> {
    let mut pdu = [0; 16];
    let len = name.len().min(15);
    pdu[..len].copy_from_slice(&name[..len]);
    write_note(out, order, NOTE_PROCESS, at.time, pid, at.device, at.cpu, &pdu)
}

/// Writes the note that ties the record time `time` to the wall clock.
pub fn write_timestamp(out: &mut impl Write, order: ByteOrder, at: &Event, unix_ns: u64) -> io::Result<()> {
    let words = [unix_ns / 1_000_000_000, unix_ns % 1_000_000_000].map(|word| match order {
        ByteOrder::Little => (word as u32).to_le_bytes(),
        ByteOrder::Big => (word as u32).to_be_bytes(),
    });
    write_note(out, order, NOTE_TIMESTAMP, 0, 0, at.device, at.cpu, words.as_flattened())
}

#[expect(clippy::too_many_arguments, reason = "they are the record's fields")]
fn write_note(
    out: &mut impl Write, order: ByteOrder, code: u32, time: u64, pid: u32, device: DeviceId, cpu: u16, pdu: &[u8],
) -> io::Result<()> {
    let record = Record {
        magic: MAGIC,
        time,
        action: u32::from(Rwbs::NOTIFY.0) << 16 | code,
        pid,
        device: device.0,
        cpu: u32::from(cpu),
        pdu_len: pdu.len() as u16,
        ..Record::default()
    };
    out.write_all(&record.encode(order))?;
    out.write_all(pdu)
}
