//! The common part of the writer and the reader of Parquet: metadata about the trace, and errors.

use crate::error::{Result, TraceError};
use crate::event::{DeviceId, Event};
use crate::source::{Capabilities, Input, TraceInfo, Warning};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

const MOST_DEVICES: usize = 65_536; // The largest number of devices with an input

/// The input of each device's events, which rows do not contain.
#[derive(Debug, Default, PartialEq)]
pub struct InputByDevice(HashMap<DeviceId, u16>);

impl InputByDevice {
    /// Adds an event's device; its first input stays.
    pub fn learn(&mut self, event: &Event) {
        if self.0.len() < MOST_DEVICES {
            self.0.entry(event.device).or_insert(event.input);
        }
    }

    /// The index of a device's input.
    pub fn get(&self, device: DeviceId) -> u16 {
        self.0.get(&device).copied().unwrap_or(0)
    }
}

/// An input in the metadata.
#[derive(Serialize, Deserialize)]
struct NamedInput {
    name: String,
    devices: Vec<u32>,
}

/// A file's metadata that [`TraceInfo`] does not hold.
#[derive(Debug, Default, PartialEq)]
pub struct ParquetOrigin {
    pub format: Option<String>,             // Name of the format that was converted
    pub capabilities: Option<Capabilities>, // The capabilities of that trace; `None` in files of blklab 0.1.0
    pub input_of: InputByDevice,            // The input of each device's events
}

/// Makes a file's metadata about the trace.
pub fn write_metadata(info: &TraceInfo, input_of: &InputByDevice) -> Vec<KeyValue> {
    let mut pairs = Vec::new();
    let mut add_pair = |key: &str, value: String| pairs.push(KeyValue::new(key.to_owned(), value));
    add_pair("format", info.format.clone());
    add_pair("version", env!("CARGO_PKG_VERSION").into());
    add_pair("capabilities", to_json(&info.capabilities));
    let inputs = info.inputs.iter().enumerate().map(|(number, input)| {
        let from_here = input_of.0.iter().filter(|(_, from)| usize::from(**from) == number);
        let mut devices: Vec<u32> = from_here.map(|(device, _)| device.0).collect();
        devices.sort_unstable();
        NamedInput { name: input.name.clone(), devices }
    });
    add_pair("inputs", to_json(&inputs.collect::<Vec<_>>()));
    if let Some(start) = info.start_unix_ns {
        add_pair("start_unix_ns", start.to_string());
    }
    if let Some(dropped) = info.dropped {
        add_pair("dropped", dropped.to_string());
    }
    for (key, count) in
        [("messages", info.messages), ("out_of_order", info.out_of_order), ("sequence_gaps", info.sequence_gaps)]
    {
        add_pair(key, count.to_string());
    }
    if !info.warnings.is_empty() {
        add_pair("warnings", to_json(&info.warnings));
    }
    if !info.device_names.is_empty() {
        let line = |(number, name): &(u32, String)| format!("{number} {}", without_control_characters(name));
        add_pair("device_names", info.device_names.iter().map(line).collect::<Vec<_>>().join("\n"));
    }
    pairs
}

/// The inverse of [`write_metadata`]: stores a file's metadata in `info`, whose only input is the file. Missing and
/// invalid values leave `info` unchanged.
pub fn read_metadata(pairs: &[KeyValue], info: &mut TraceInfo) -> ParquetOrigin {
    let mut origin = ParquetOrigin::default();
    let count = |value: &str, old: u64| value.parse().unwrap_or(old);
    for pair in pairs {
        let value = pair.value.as_deref().unwrap_or("");
        match pair.key.as_str() {
            "format" => origin.format = Some(value.to_owned()),
            "capabilities" => origin.capabilities = serde_json::from_str(value).ok(),
            "inputs" => read_inputs(value, info, &mut origin.input_of),
            "start_unix_ns" => info.start_unix_ns = value.parse().ok(),
            "dropped" => info.dropped = value.parse().ok(),
            "messages" => info.messages = count(value, info.messages),
            "out_of_order" => info.out_of_order = count(value, info.out_of_order),
            "sequence_gaps" => info.sequence_gaps = count(value, info.sequence_gaps),
            "warnings" => {
                for warning in serde_json::from_str::<Vec<Warning>>(value).unwrap_or_default() {
                    info.warn(&warning.path, warning.message);
                }
            }
            // `251658240 usr_0`
            "device_names" => {
                let words = value.lines().filter_map(|line| line.split_once(' '));
                info.device_names =
                    words.filter_map(|(number, name)| Some((number.parse().ok()?, name.into()))).collect();
            }
            _ => {}
        }
    }
    origin
}

/// Replaces the file by the original inputs, which all are now read from it.
fn read_inputs(value: &str, info: &mut TraceInfo, input_of: &mut InputByDevice) {
    let Ok(named) = serde_json::from_str::<Vec<NamedInput>>(value) else { return };
    let files = info.inputs.first().map(|input| input.files.clone()).unwrap_or_default();
    if named.is_empty() || named.len() > usize::from(u16::MAX) + 1 {
        return;
    }
    info.inputs.clear();
    for (number, NamedInput { name, devices }) in named.into_iter().enumerate() {
        info.inputs.push(Input { name: without_control_characters(&name), files: files.clone() });
        for device in devices.into_iter().map(DeviceId) {
            input_of.learn(&Event { device, input: number as u16, ..Event::default() });
        }
    }
}

fn to_json(value: &impl Serialize) -> String {
    // Cannot fail: the values are strings, numbers and booleans.
    serde_json::to_string(value).unwrap_or_default()
}

/// A name without control characters: one line, harmless in a terminal.
fn without_control_characters(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

/// Turns the library's errors into this crate's.
pub fn convert_error<T>(path: &str, result: ParquetResult<T>) -> Result<T> {
    result.map_err(|e| {
        let e = match e {
            ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(io) => return TraceError::io(path, *io),
                Err(other) => other.to_string(),
            },
            other => other.to_string(),
        };
        TraceError::malformed(path, "Parquet", e)
    })
}

#[cfg(test)]
mod tests;
