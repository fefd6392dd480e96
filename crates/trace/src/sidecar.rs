//! The record that `blklab trace record` leaves next to a trace: `NAME.blklab.json`, or `blklab.json` in a directory
//! of traces. It has the number of dropped events, which the trace does not contain.

use std::fs;
use std::path::Path;

const MOST_BYTES: u64 = 1 << 20; // The largest size of a sidecar

/// The number of events dropped while the set `name`, to which `file` belongs, was recorded; `None` if no record has
/// it.
pub fn read_dropped_events(file: &Path, name: &str) -> Option<u64> {
    let names = [format!("{name}.blklab.json"), "blklab.json".into()];
    let path = names.map(|name| file.with_file_name(name)).into_iter().find(|path| path.is_file())?;
    if fs::metadata(&path).ok()?.len() > MOST_BYTES {
        return None;
    }
    let document: serde_json::Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let devices = document.get("devices")?.as_array()?;
    let of_set = devices.iter().find(|device| device.get("name").and_then(|n| n.as_str()) == Some(name));
    let only_device = devices.len() == 1;
    of_set.or(only_device.then_some(&document)).and_then(|d| d.get("dropped")).and_then(serde_json::Value::as_u64)
}

#[cfg(test)]
mod tests;
