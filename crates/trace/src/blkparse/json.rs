//! One event as a line of JSON, for programs.

use crate::event::{Action, Event};
use crate::process::ProcessTable;
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct JsonEvent<'a> {
    time_ns: u64,
    device: String,
    cpu: u16,
    sequence: u32,
    pid: u32,
    process: Option<&'a str>,
    action: &'static str,
    rwbs: &'a str,
    sector: u64,
    bytes: u32,
    error: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    remap_device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remap_sector: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    split_sector: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unplugged: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Writes the event as one JSON object and a newline. `pdu` is the event's extra bytes.
pub fn write_line(out: &mut impl Write, event: &Event, pdu: &[u8], processes: &ProcessTable) -> io::Result<()> {
    let is = |action| event.action == action;
    let letters = event.rwbs.letters(event.bytes);
    let unplug = is(Action::UNPLUG) || is(Action::UNPLUG_TIMER);
    let line = JsonEvent {
        time_ns: event.time,
        device: event.device.to_string(),
        cpu: event.cpu,
        sequence: event.sequence,
        pid: event.pid,
        process: processes.name(event.pid),
        action: event.action.letters(),
        rwbs: letters.as_str(),
        sector: event.sector,
        bytes: event.bytes,
        error: event.error as i16,
        remap_device: is(Action::REMAP).then(|| event.arg_device.to_string()),
        remap_sector: is(Action::REMAP).then_some(event.arg_sector),
        split_sector: is(Action::SPLIT).then_some(event.arg_sector),
        unplugged: unplug.then_some(event.arg_sector),
        message: is(Action::MESSAGE).then(|| String::from_utf8_lossy(pdu).into_owned()),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}
