//! Names in traces: named devices (volumes, hosts' disks, files) get device numbers; processes keep their ids.

use crate::event::{DeviceId, EventBatch, ProcessName};
use std::collections::{HashMap, HashSet};

/// Major number of devices that a trace only names: Linux keeps 240 to 254 for local use.
pub const NAMED_MAJOR: u32 = 240;
const NAME_BYTES: usize = 256; // The largest size of a process's name, bytes; the kernel's have 15

/// Numbers for named devices, in the order in which they appear.
#[derive(Default)]
pub struct NamedDevices {
    numbers: HashMap<Box<[u8]>, DeviceId>,
    last: Vec<u8>,
    last_number: DeviceId,
    pub names: Vec<(u32, String)>, // (number, name) of each
    pub unnumbered: u64,           // Rows on devices beyond the largest number of devices
}

impl NamedDevices {
    pub const MAX: usize = 65_536; // The largest number of devices; further ones share the last number

    /// The number of the device that the trace calls `key`; `name` makes its display name.
    pub fn number(&mut self, key: &[u8], name: impl FnOnce(&str) -> String) -> DeviceId {
        if key != self.last.as_slice() || self.numbers.is_empty() {
            self.look_up(key, name);
        }
        self.last_number
    }

    fn look_up(&mut self, key: &[u8], name: impl FnOnce(&str) -> String) {
        let number = match self.numbers.get(key) {
            Some(&number) => number,
            None if self.numbers.len() >= Self::MAX || key.len() > 4096 => {
                self.unnumbered += 1;
                self.last_number = DeviceId::new(NAMED_MAJOR, Self::MAX as u32);
                self.last.clear();
                self.last.push(0);
                return;
            }
            None => {
                let shown: String = String::from_utf8_lossy(key).chars().take(64).collect();
                let number =
                    DeviceId::from_file_name(&shown).unwrap_or(DeviceId::new(NAMED_MAJOR, self.names.len() as u32));
                self.names.push((number.0, name(&shown)));
                self.numbers.insert(key.into(), number);
                number
            }
        };
        self.last.clear();
        self.last.extend_from_slice(key);
        self.last_number = number;
    }
}

/// Names of processes, with those that have not been reported yet.
#[derive(Default)]
pub struct NewProcessNames {
    seen: HashSet<u32>,
    unreported: Vec<(u32, Vec<u8>)>, // (pid, name) of names to report, in order of appearance
}

impl NewProcessNames {
    /// Adds a name; the first name of a process stays.
    pub fn learn(&mut self, pid: u32, name: &[u8]) {
        if self.seen.len() < 1 << 20 && self.seen.insert(pid) {
            self.unreported.push((pid, name[..name.len().min(NAME_BYTES)].to_vec()));
        }
    }

    /// Reports them before the next event of the batch.
    pub fn report(&mut self, batch: &mut EventBatch) {
        let before = batch.events.len();
        batch.names.extend(self.unreported.drain(..).map(|(pid, name)| ProcessName { before, pid, name }));
    }
}

#[cfg(test)]
mod tests;
