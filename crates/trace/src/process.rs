//! Names of processes from a trace's notes.

use crate::event::{Event, EventBatch};
use std::collections::HashMap;

/// What blkparse prints for unnamed processes (glibc's `printf` of a null pointer).
pub const UNNAMED: &str = "(null)";

/// Names by process id. The first name of an id stays, as in blkparse: a later note repeats the name
/// for another device or CPU.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    names: HashMap<u32, String>,
}

impl ProcessTable {
    /// The largest number of ids: Linux has at most 4,194,304 at a time.
    const MAX: usize = 1 << 20;

    /// Adds a name.
    pub fn learn(&mut self, pid: u32, name: &str) {
        if self.names.len() < Self::MAX {
            self.names.entry(pid).or_insert_with(|| name.chars().take(64).collect());
        }
    }

    /// Calls `act` with every event of a batch and the names that are known at that event.
    pub fn for_each_event<E>(
        &mut self,
        batch: &EventBatch,
        mut act: impl FnMut(&Event, &ProcessTable) -> Result<(), E>,
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
        self.names.get(&pid).map(String::as_str)
    }
}
