//! What the writer and the reader of Parquet share: what a file says of its trace besides the rows, and errors.

use crate::error::{Result, TraceError};
use crate::event::{DeviceId, Event};
use crate::source::{Capabilities, Input, TraceInfo, Warning};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Devices whose input is remembered.
const MOST_DEVICES: usize = 65_536;

/// The input that each device's events came from: rows do not tell it.
#[derive(Debug, Default, PartialEq)]
pub struct InputOf(HashMap<DeviceId, u16>);

impl InputOf {
    /// Takes in an event's device; its first input stays.
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

/// An input, as metadata has it.
#[derive(Serialize, Deserialize)]
struct NamedInput {
    name: String,
    devices: Vec<u32>,
}

/// What a file's metadata says besides what goes into [`TraceInfo`].
#[derive(Debug, Default, PartialEq)]
pub struct Origin {
    /// Name of the format that was converted.
    pub format: Option<String>,
    /// What that trace could tell; `None` in files of blklab 0.1.0.
    pub capabilities: Option<Capabilities>,
    /// Which input each device's events came from.
    pub input_of: InputOf,
}

/// A file's metadata: what is known of the trace that its rows are of.
pub fn describe(info: &TraceInfo, input_of: &InputOf) -> Vec<KeyValue> {
    let mut pairs = Vec::new();
    let mut tell = |key: &str, value: String| pairs.push(KeyValue::new(key.to_owned(), value));
    tell("format", info.format.clone());
    tell("version", env!("CARGO_PKG_VERSION").into());
    tell("capabilities", json(&info.capabilities));
    let inputs = info.inputs.iter().enumerate().map(|(number, input)| {
        let from_here = input_of.0.iter().filter(|(_, from)| usize::from(**from) == number);
        let mut devices: Vec<u32> = from_here.map(|(device, _)| device.0).collect();
        devices.sort_unstable();
        NamedInput { name: input.name.clone(), devices }
    });
    tell("inputs", json(&inputs.collect::<Vec<_>>()));
    if let Some(start) = info.start_unix_ns {
        tell("start_unix_ns", start.to_string());
    }
    if let Some(dropped) = info.dropped {
        tell("dropped", dropped.to_string());
    }
    for (key, count) in [
        ("messages", info.messages),
        ("out_of_order", info.out_of_order),
        ("sequence_gaps", info.sequence_gaps),
    ] {
        tell(key, count.to_string());
    }
    if !info.warnings.is_empty() {
        tell("warnings", json(&info.warnings));
    }
    if !info.device_names.is_empty() {
        let line = |(number, name): &(u32, String)| format!("{number} {}", harmless(name));
        tell("device_names", info.device_names.iter().map(line).collect::<Vec<_>>().join("\n"));
    }
    pairs
}

/// The inverse of [`describe`]: puts what a file's metadata says into `info`, whose only input is the file.
/// What is absent or makes no sense leaves `info` as it is.
pub fn recall(pairs: &[KeyValue], info: &mut TraceInfo) -> Origin {
    let mut origin = Origin::default();
    let count = |value: &str, old: u64| value.parse().unwrap_or(old);
    for pair in pairs {
        let value = pair.value.as_deref().unwrap_or("");
        match pair.key.as_str() {
            "format" => origin.format = Some(value.to_owned()),
            "capabilities" => origin.capabilities = from_json(value),
            "inputs" => recall_inputs(value, info, &mut origin.input_of),
            "start_unix_ns" => info.start_unix_ns = value.parse().ok(),
            "dropped" => info.dropped = value.parse().ok(),
            "messages" => info.messages = count(value, info.messages),
            "out_of_order" => info.out_of_order = count(value, info.out_of_order),
            "sequence_gaps" => info.sequence_gaps = count(value, info.sequence_gaps),
            "warnings" => {
                for warning in from_json::<Vec<Warning>>(value).unwrap_or_default() {
                    info.warn(&warning.path, warning.message);
                }
            }
            "device_names" => info.device_names = value.lines().filter_map(numbered_name).collect(),
            _ => {}
        }
    }
    origin
}

/// Puts the inputs that were converted in the place of the file, which each is now read from.
fn recall_inputs(value: &str, info: &mut TraceInfo, input_of: &mut InputOf) {
    let Some(named) = from_json::<Vec<NamedInput>>(value) else { return };
    let files = info.inputs.first().map(|input| input.files.clone()).unwrap_or_default();
    if named.is_empty() || named.len() > usize::from(u16::MAX) + 1 {
        return;
    }
    info.inputs.clear();
    for (number, NamedInput { name, devices }) in named.into_iter().enumerate() {
        info.inputs.push(Input { name: harmless(&name), files: files.clone() });
        for device in devices.into_iter().map(DeviceId) {
            input_of.learn(&Event { device, input: number as u16, ..Event::default() });
        }
    }
}

fn json(value: &impl Serialize) -> String {
    // Of strings, numbers and truth values: cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn from_json<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_str(text).ok()
}

/// `251658240 usr_0`
fn numbered_name(line: &str) -> Option<(u32, String)> {
    let (number, name) = line.split_once(' ')?;
    Some((number.parse().ok()?, name.to_owned()))
}

/// A name that is one line, and does nothing in a terminal.
fn harmless(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

/// Turns the library's errors into this crate's.
pub fn named<T>(path: &str, result: ParquetResult<T>) -> Result<T> {
    result.map_err(|e| {
        let e = match e {
            ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(io) => return TraceError::io(path, *io),
                Err(other) => other.to_string(),
            },
            other => other.to_string(),
        };
        TraceError::Malformed { path: path.to_owned(), place: "Parquet".into(), problem: e }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    fn info() -> impl Strategy<Value = TraceInfo> {
        let name = || "[^\\p{Cc}]{0,12}";
        let counts = (any::<u64>(), any::<u64>(), any::<u64>());
        let clock = (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>());
        let lists = (vec(name(), 1..5), vec((any::<u32>(), name()), 0..4), vec((".*", ".*"), 0..4));
        (counts, clock, any::<[bool; 4]>(), lists).prop_map(|(counts, clock, known, lists)| {
            let [layers, processes, directions, completions] = known;
            let input = |name| Input { name, files: vec!["x.parquet".into()] };
            let warning = |(path, message)| Warning { path, message };
            TraceInfo {
                format: "blktrace".into(),
                capabilities: Capabilities { layers, processes, directions, completions, clock_ns: clock.0 },
                inputs: lists.0.into_iter().map(input).collect(),
                start_unix_ns: clock.1,
                dropped: clock.2,
                messages: counts.0,
                out_of_order: counts.1,
                sequence_gaps: counts.2,
                device_names: lists.1,
                warnings: lists.2.into_iter().map(warning).collect(),
                ..TraceInfo::default()
            }
        })
    }

    /// A file about which nothing is known yet.
    fn unknown() -> TraceInfo {
        let file = Input { name: String::new(), files: vec!["x.parquet".into()] };
        TraceInfo { format: "parquet".into(), inputs: vec![file], ..TraceInfo::default() }
    }

    proptest! {
        #[test]
        fn what_is_described_is_recalled(
            info in info(),
            inputs in btree_map(any::<u32>(), any::<prop::sample::Index>(), 0..20),
        ) {
            let mut input_of = InputOf::default();
            for (device, index) in inputs {
                let input = index.index(info.inputs.len()) as u16;
                input_of.learn(&Event { device: DeviceId(device), input, ..Event::default() });
            }
            let mut found = unknown();
            let origin = recall(&describe(&info, &input_of), &mut found);
            prop_assert_eq!(origin.format.as_deref(), Some("blktrace"));
            prop_assert_eq!(origin.capabilities, Some(info.capabilities));
            prop_assert_eq!(origin.input_of, input_of);
            let expected = TraceInfo {
                format: found.format.clone(),
                capabilities: found.capabilities,
                ..info
            };
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_metadata_is_survived(key in "[a-z_]*|inputs|capabilities|warnings", value in ".*") {
            let mut found = unknown();
            recall(&[KeyValue::new(key, value)], &mut found);
            prop_assert!(!found.inputs.is_empty());
        }
    }

    #[test]
    fn names_from_a_file_do_nothing_in_a_terminal() {
        let mut found = unknown();
        let inputs = r#"[{"name": "a\u001b[31m", "devices": [7]}]"#.to_owned();
        recall(&[KeyValue::new("inputs".to_owned(), inputs)], &mut found);
        assert_eq!(found.inputs[0].name, "a\u{fffd}[31m");
    }
}
