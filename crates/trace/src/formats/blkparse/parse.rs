//! One line of blkparse's default output: the inverse of [`crate::blkparse::line`].

use crate::event::{Action, DeviceId, Event, Rwbs, SECTOR};
use crate::formats::fields::{Fields, whole_number};
use crate::formats::row_source::category_of;
use crate::process::UNNAMED;

/// What a line contains in addition to its event.
#[derive(Default)]
pub struct LineDetails<'a> {
    pub name: Option<&'a [u8]>, // The process's name, when the line has one
    pub text: Option<&'a [u8]>, // A message's text
}

/// Parses a line; `pdu` gets a passthrough command's bytes. `None` if it is not an event.
pub fn parse_line<'a>(line: &'a [u8], pdu: &mut Vec<u8>) -> Option<(Event, LineDetails<'a>)> {
    pdu.clear();
    let mut fields = Fields::new(line);
    let mut event = Event::default();
    let mut details = LineDetails::default();
    fields.spaces();
    let major = fields.number32().filter(|&m| m < 4096)?;
    fields.byte(b',')?;
    event.device = DeviceId::new(major, fields.number32().filter(|&m| m < 1 << 20)?);
    fields.byte(b' ')?;
    fields.spaces();
    event.cpu = fields.number()?.try_into().ok()?;
    fields.spaces();
    let negative = fields.byte(b'-').is_some();
    let sequence = fields.number32()?;
    event.sequence = if negative { sequence.wrapping_neg() } else { sequence };
    fields.spaces();
    event.time = fields.decimal(9)?;
    fields.spaces();
    event.pid = fields.number32()?;
    fields.byte(b' ')?;
    event.action = Action::from_letters(std::str::from_utf8(fields.word()).ok()?)?;
    let letters = fields.word();
    fields.byte(b' ')?;
    event.rwbs = rwbs_of(letters)?.with(category_of(event.action));
    if event.action == Action::MESSAGE {
        event.rwbs = Rwbs::NOTIFY;
        details.text = Some(fields.remaining);
        return Some((event, details));
    }
    match event.action {
        Action::COMPLETE | Action::REQUEUE => parse_end(&mut event, fields, pdu)?,
        Action::REMAP => parse_remap(&mut event, fields)?,
        Action::UNPLUG | Action::UNPLUG_TIMER => {
            fields.byte(b'[')?;
            let rest = fields.remaining;
            let at = rest.iter().rposition(|&b| b == b']')?;
            details.name = Some(&rest[..at]);
            event.arg_sector = whole_number(rest[at + 1..].strip_prefix(b" ")?)?;
        }
        _ => details.name = Some(parse_start(&mut event, fields, pdu)?),
    }
    // The line does not show the length, but the letter does: N is none, R is some.
    if letters.contains(&b'R') && event.bytes == 0 {
        event.bytes = 1;
    }
    if letters.contains(&b'N') {
        event.bytes = 0;
    }
    details.name = details.name.filter(|&name| name != UNNAMED.as_bytes());
    Some((event, details))
}

/// `sector + sectors [error]`, `sector [error]`, or of a passthrough command `(bytes) [error]`.
fn parse_end(event: &mut Event, mut fields: Fields, pdu: &mut Vec<u8>) -> Option<()> {
    match fields.remaining.first()? {
        b'(' | b'[' => {
            event.rwbs = event.rwbs.with(Rwbs::PASSTHROUGH);
            parse_hex(&mut fields, pdu)?;
        }
        _ => {
            event.sector = fields.number()?;
            fields.byte(b' ')?;
            if fields.byte(b'+').is_some() {
                fields.byte(b' ')?;
                event.bytes = bytes_of(fields.number()?)?;
                fields.byte(b' ')?;
            }
        }
    }
    fields.byte(b'[')?;
    event.error = fields.number()?.try_into().ok()?;
    fields.byte(b']')?;
    fields.is_done().then_some(())
}

/// `sector + sectors <- (major,minor) sector`.
fn parse_remap(event: &mut Event, mut fields: Fields) -> Option<()> {
    event.sector = fields.number()?;
    take_text(&mut fields, b" + ")?;
    event.bytes = bytes_of(fields.number()?)?;
    take_text(&mut fields, b" <- (")?;
    let major = fields.number32().filter(|&m| m < 4096)?;
    fields.byte(b',')?;
    event.arg_device = DeviceId::new(major, fields.number32().filter(|&m| m < 1 << 20)?);
    // blkparse shows the remap's target where other lines show the device itself.
    event.target_device = event.device;
    take_text(&mut fields, b") ")?;
    event.arg_sector = fields.number()?;
    fields.is_done().then_some(())
}

/// `sector + sectors [name]`, `sector / sector [name]`, `[name]`, or of a passthrough command
/// `bytes (bytes) [name]`. Returns the name.
fn parse_start<'a>(event: &mut Event, mut fields: Fields<'a>, pdu: &mut Vec<u8>) -> Option<&'a [u8]> {
    if fields.remaining.first() != Some(&b'[') {
        let number = fields.number()?;
        fields.byte(b' ')?;
        match fields.remaining.first()? {
            b'+' => {
                event.sector = number;
                take_text(&mut fields, b"+ ")?;
                event.bytes = bytes_of(fields.number()?)?;
                fields.byte(b' ')?;
            }
            b'/' if event.action == Action::SPLIT => {
                event.sector = number;
                take_text(&mut fields, b"/ ")?;
                event.arg_sector = u64::from(fields.number32()?);
                // The event's length is that of the first part.
                let sectors = (event.arg_sector as u32).wrapping_sub(number as u32);
                event.bytes = bytes_of(u64::from(sectors)).unwrap_or(0);
                fields.byte(b' ')?;
            }
            _ => {
                event.rwbs = event.rwbs.with(Rwbs::PASSTHROUGH);
                event.bytes = number.try_into().ok()?;
                parse_hex(&mut fields, pdu)?;
            }
        }
    }
    fields.byte(b'[')?;
    let rest = fields.remaining;
    let end = rest.iter().rposition(|&b| b == b']')?;
    rest[end + 1..].trim_ascii().is_empty().then_some(&rest[..end])
}

/// `(2a 00 ..) `, or nothing.
fn parse_hex(fields: &mut Fields, pdu: &mut Vec<u8>) -> Option<()> {
    if fields.byte(b'(').is_none() {
        return Some(());
    }
    let inside = fields.until(b')');
    for word in inside.split(|&b| b == b' ') {
        match word {
            b".." => {}
            [high, low] if pdu.len() < usize::from(u16::MAX) => {
                let digit = |b: u8| char::from(b).to_digit(16);
                pdu.push((digit(*high)? << 4 | digit(*low)?) as u8);
            }
            _ => return None,
        }
    }
    fields.byte(b' ')
}

fn take_text(fields: &mut Fields, text: &[u8]) -> Option<()> {
    text.iter().try_for_each(|&byte| fields.byte(byte))
}

fn bytes_of(sectors: u64) -> Option<u32> {
    u32::try_from(sectors.checked_mul(SECTOR)?).ok()
}

fn rwbs_of(letters: &[u8]) -> Option<Rwbs> {
    if letters.len() > 6 {
        return None;
    }
    Rwbs::from_letters(std::str::from_utf8(letters).ok()?)
}
