//! Names of processes from a trace's notes.

use crate::event::{Event, EventBatch};
use std::collections::HashMap;

pub const UNNAMED: &str = "(null)"; // What blkparse prints for unnamed processes (glibc's `printf` of a null pointer)

/// A name as text, and as recorded if it is not UTF-8.
#[derive(Clone, Debug)]
struct KnownName {
    text: String,
    bytes: Option<Box<[u8]>>,
}

/// Names by process id. The first name of an id stays, as in blkparse: a later note repeats the name
/// for another device or CPU.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    names: HashMap<u32, KnownName>,
}

impl ProcessTable {
    const MAX: usize = 1 << 20; // The largest number of ids: Linux has at most 4,194,304 at a time

    /// Adds a name.
    pub fn learn(&mut self, pid: u32, name: &[u8]) {
        if self.names.len() < Self::MAX {
            self.names.entry(pid).or_insert_with(|| KnownName {
                text: String::from_utf8_lossy(name).chars().take(64).collect(),
                bytes: std::str::from_utf8(name).is_err().then(|| name.into()),
            });
        }
    }

    /// Calls `act` with every event of a batch and the names that are known at that event.
    pub fn for_each_event<E>(
        &mut self, batch: &EventBatch, mut act: impl FnMut(&Event, &ProcessTable) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut names = batch.names.iter().peekable();
        for (at, event) in batch.events.iter().enumerate() {
            while let Some(name) = names.next_if(|name| name.before <= at) {
                self.learn(name.pid, &name.name);
            }
            act(event, self)?;
        }
        names.for_each(|name| self.learn(name.pid, &name.name));
        Ok(())
    }

    /// The name of a process, if known.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(|name| name.text.as_str())
    }

    /// The name of a process as recorded, or [`UNNAMED`].
    pub fn bytes(&self, pid: u32) -> &[u8] {
        let Some(name) = self.names.get(&pid) else { return UNNAMED.as_bytes() };
        name.bytes.as_deref().unwrap_or(name.text.as_bytes())
    }
}
