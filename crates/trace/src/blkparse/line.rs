//! One event as blkparse 1.2.0 prints it by default (`process_default` in blkparse_fmt.c).

use crate::blktrace::record::unpadded;
use crate::event::{Action, DeviceId, Event, Rwbs};
use crate::process::ProcessTable;
use std::io::{self, Write};

/// Writes the event's line; nothing for what blkparse does not print (driver data, unknown actions).
/// `pdu` is the event's extra bytes.
pub fn write_line(out: &mut impl Write, event: &Event, pdu: &[u8], processes: &ProcessTable) -> io::Result<()> {
    if event.action == Action::MESSAGE {
        return write_message(out, event, pdu);
    }
    let passthrough = event.rwbs.has(Rwbs::PASSTHROUGH);
    if !is_printed(event.action, passthrough) {
        return Ok(());
    }
    let device = if event.target_device.0 != 0 { event.target_device } else { event.device };
    write_head(out, event, device, event.action.letters(), event.rwbs.letters(event.bytes).as_str())?;
    let sectors = event.sectors();
    match event.action {
        Action::REQUEUE | Action::COMPLETE if passthrough => {
            let shown = if event.action == Action::COMPLETE { pdu } else { &[] };
            write_hex(out, shown)?;
            writeln!(out, "[{}]", event.error)
        }
        Action::REQUEUE | Action::COMPLETE if sectors > 0 => {
            writeln!(out, "{} + {} [{}]", event.sector, sectors, event.error)
        }
        Action::REQUEUE | Action::COMPLETE => writeln!(out, "{} [{}]", event.sector, event.error),
        Action::DISPATCH | Action::INSERT | Action::QUEUE | Action::BOUNCE if passthrough => {
            write!(out, "{} ", event.bytes)?;
            let shown = if event.action == Action::QUEUE { &[] } else { pdu };
            write_hex(out, shown)?;
            write_name(out, event, processes)?;
            writeln!(out)
        }
        Action::UNPLUG | Action::UNPLUG_TIMER => {
            write_name(out, event, processes)?;
            writeln!(out, " {}", event.arg_sector as u32)
        }
        Action::REMAP => {
            writeln!(out, "{} + {} <- ({}) {}", event.sector, sectors, event.arg_device, event.arg_sector)
        }
        action => {
            match action {
                Action::PLUG => {}
                Action::SPLIT => write!(out, "{} / {} ", event.sector, event.arg_sector as u32)?,
                _ if sectors > 0 => write!(out, "{} + {} ", event.sector, sectors)?,
                _ => {}
            }
            write_name(out, event, processes)?;
            writeln!(out)
        }
    }
}

/// What every line begins with.
fn write_head(out: &mut impl Write, event: &Event, device: DeviceId, action: &str, rwbs: &str) -> io::Result<()> {
    write!(
        out,
        "{:3},{:<3} {:2} {:8} {:5}.{:09} {:5} {action:>2} {rwbs:>3} ",
        device.major(),
        device.minor(),
        event.cpu,
        event.sequence as i32,
        event.time / 1_000_000_000,
        event.time % 1_000_000_000,
        event.pid,
    )
}

fn write_name(out: &mut impl Write, event: &Event, processes: &ProcessTable) -> io::Result<()> {
    out.write_all(b"[")?;
    out.write_all(processes.bytes(event.pid))?;
    out.write_all(b"]")
}

/// Which actions blkparse knows, for normal and for passthrough requests.
fn is_printed(action: Action, passthrough: bool) -> bool {
    match action {
        Action::QUEUE | Action::GET_REQUEST | Action::SLEEP_REQUEST | Action::REQUEUE => true,
        Action::DISPATCH | Action::COMPLETE | Action::INSERT => true,
        Action::DRIVER_DATA => false,
        _ => !passthrough && action.letters() != "?",
    }
}

fn write_message(out: &mut impl Write, event: &Event, pdu: &[u8]) -> io::Result<()> {
    if pdu.is_empty() {
        return Ok(());
    }
    write_head(out, &Event { sequence: 0, pid: 0, ..*event }, event.device, "m", "N")?;
    out.write_all(unpadded(pdu))?;
    out.write_all(b"\n")
}

/// `(2a 00 .. ) ` — hex bytes, with `..` for a tail of zeroes.
fn write_hex(out: &mut impl Write, pdu: &[u8]) -> io::Result<()> {
    if pdu.is_empty() {
        return Ok(());
    }
    out.write_all(b"(")?;
    for (i, byte) in pdu.iter().enumerate() {
        if i > 0 {
            out.write_all(b" ")?;
        }
        write!(out, "{byte:02x}")?;
        if pdu[i..].iter().all(|&b| b == 0) {
            out.write_all(b" ..")?;
            break;
        }
    }
    out.write_all(b") ")
}
