//! The processes that the agent started, and waiting for them; their orphans are reaped too.
//!
//! PID 1 must also wait for processes that it does not know, so one thread waits for all of them.

use crate::failure::lock;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, wait, waitid};
use std::collections::HashMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Exit statuses, or negated signal numbers, by process; `None` while the process runs.
type Statuses = HashMap<Pid, Option<i32>>;

/// The processes; cheap to clone.
#[derive(Clone, Default)]
pub struct Children(Arc<(Mutex<Statuses>, Condvar)>);

impl Children {
    /// Starts the thread that waits.
    pub fn new() -> io::Result<Children> {
        let children = Children::default();
        let reaper = children.clone();
        std::thread::Builder::new().name("reaper".into()).spawn(move || reaper.reap())?;
        Ok(children)
    }

    fn reap(&self) {
        let (statuses, changed) = &*self.0;
        loop {
            // NOWAIT leaves the child: `Command` itself waits for a child whose exec failed.
            let ended = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut statuses = lock(statuses);
            match ended {
                Ok(_) => {
                    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                        if let Some(known) = statuses.get_mut(&pid) {
                            let signal = status.terminating_signal().map(|number| -number);
                            *known = Some(status.exit_status().or(signal).unwrap_or(0));
                        }
                    }
                    changed.notify_all();
                }
                // Without children there are no orphans either.
                Err(rustix::io::Errno::CHILD) if statuses.values().all(Option::is_some) => {
                    drop(changed.wait(statuses));
                }
                Err(_) => {}
            }
        }
    }

    /// Starts a command in its own process group; call `forget` at the end.
    pub fn spawn(&self, command: &mut Command) -> io::Result<(Child, Pid)> {
        let (statuses, changed) = &*self.0;
        let mut statuses = lock(statuses);
        let child = command.process_group(0).spawn()?;
        let pid = Pid::from_child(&child);
        statuses.insert(pid, None);
        changed.notify_all();
        Ok((child, pid))
    }

    /// Returns a child's exit status or negated signal number; `None` if it has not ended by `until`.
    pub fn wait(&self, pid: Pid, until: Option<Instant>) -> Option<i32> {
        let (statuses, changed) = &*self.0;
        let runs = |statuses: &mut Statuses| statuses.get(&pid).copied().flatten().is_none();
        let statuses = match until {
            None => changed.wait_while(lock(statuses), runs).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                changed.wait_timeout_while(lock(statuses), left, runs).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        statuses.get(&pid).copied().flatten()
    }

    /// Signals the process group of a child that is running; false if it has ended.
    pub fn signal(&self, pid: Pid, signal: Signal) -> io::Result<bool> {
        // The lock prevents that another process gets the number meanwhile.
        let statuses = lock(&self.0.0);
        if statuses.get(&pid) != Some(&None) {
            return Ok(false);
        }
        kill_process_group(pid, signal)?;
        Ok(true)
    }

    /// Removes a child whose status is not needed any more.
    pub fn forget(&self, pid: Pid) {
        lock(&self.0.0).remove(&pid);
    }
}
