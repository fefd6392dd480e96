//! The commits of a filesystem's journal, and the jobs that wait for them.

use super::{Role, Simulation, TaskIo};
use crate::bio::{Flags, Op};
use crate::events::{Event, Time};
use crate::task::journal::{CommitStep, Journal, SyncAction, Syncer};

impl Simulation {
    /// The journal's task, and its state.
    fn journal(&mut self) -> Option<(u32, &mut Journal)> {
        let number = self.journal?;
        match &mut self.tasks[number as usize].role {
            Role::Journal(journal) => Some((number, journal)),
            _ => None,
        }
    }

    /// A job has changed the file, so the journal has something to commit.
    pub(super) fn mark_file_changed(&mut self) {
        let now = self.now;
        let Some((number, journal)) = self.journal() else { return };
        match journal.step {
            CommitStep::Idle => {
                if let Some(time) = journal.set_due(now + journal.interval) {
                    self.events.schedule(time, Event::task(number));
                }
            }
            CommitStep::Due(_) | CommitStep::Metadata => {}
            _ => journal.changed_at = journal.changed_at.or(Some(now)),
        }
    }

    /// The journal's next step; each begins when the previous one is done.
    #[inline(never)]
    pub(super) fn run_journal(&mut self, number: u32) {
        let now = self.now;
        let Role::Journal(journal) = &mut self.tasks[number as usize].role else { return };
        if let Err(event) = journal.wake(now) {
            event.into_iter().for_each(|time| self.events.schedule(time, Event::task(number)));
            return;
        }
        let held_writers = journal.holds_writers();
        if let Some((op, sector, bytes, flags)) = journal.advance() {
            journal.in_flight = true;
            let log = journal.device.filter(|_| journal.step != CommitStep::DataFlush);
            let target = log.unwrap_or(self.top.target);
            self.submit_to(target, TaskIo { task: number, op, bytes, start: now, timed: true }, sector, flags);
            if self.send_queued_bios(number) {
                self.unplug(number);
            }
        } else {
            self.end_commit(number);
        }
        if held_writers {
            let mut waiters = std::mem::take(&mut self.journal_waiters);
            waiters.wake_all(self);
            self.journal_waiters = waiters;
        }
    }

    /// A commit is done: jobs that waited for it go on, and the next one is due if something has changed.
    fn end_commit(&mut self, number: u32) {
        let now = self.now;
        let Role::Journal(journal) = &mut self.tasks[number as usize].role else { return };
        let (syncers, is_awaited) = journal.take_syncers();
        if let Some(since) = journal.changed_at.take() {
            let due = if is_awaited { now } else { (since + journal.interval).max(now) };
            let event = if is_awaited { begin_now(journal, now) } else { journal.set_due(due) };
            event.into_iter().for_each(|time| self.events.schedule(time, Event::task(number)));
        }
        for Syncer { task, start, flushes_after } in syncers {
            if flushes_after {
                self.flush_stack(task, start);
            } else {
                self.end_sync(task, start);
            }
        }
    }

    /// A job calls fsync.
    pub(super) fn begin_sync(&mut self, task: u32) {
        let now = self.now;
        let flushes_first =
            self.journal().and_then(|(_, journal)| journal.syncing.as_ref()).is_some_and(|s| s.flushes_data_first);
        if flushes_first {
            self.tasks[task as usize].commits_next = true;
            return self.flush_stack(task, now);
        }
        self.commit_for(task, now);
        self.unplug(task);
    }

    /// A job in fsync, since `start`, needs the commit of its changes.
    fn commit_for(&mut self, task: u32, start: Time) {
        let now = self.now;
        let Some((number, journal)) = self.journal() else { return self.flush_stack(task, start) };
        match journal.sync(Syncer { task, start, flushes_after: false }) {
            SyncAction::Flush => self.flush_stack(task, start),
            SyncAction::Done => self.end_sync(task, start),
            SyncAction::Commit => {
                let event = begin_now(journal, now);
                event.into_iter().for_each(|time| self.events.schedule(time, Event::task(number)));
            }
            SyncAction::Wait => {}
        }
    }

    /// A job in fsync flushes the stack.
    fn flush_stack(&mut self, task: u32, start: Time) {
        let io = TaskIo { task, op: Op::Flush, bytes: 0, start, timed: true };
        self.submit_task_io(io, 0, Flags::DIRECT);
        if self.send_queued_bios(task) {
            self.unplug(task);
        }
    }

    /// A flush of a job in fsync is done.
    pub(super) fn end_flush(&mut self, task: u32, start: Time) {
        if std::mem::take(&mut self.tasks[task as usize].commits_next) {
            return self.commit_for(task, start);
        }
        self.end_sync(task, start);
    }

    /// An fsync returns.
    fn end_sync(&mut self, task: u32, start: Time) {
        self.tasks[task as usize].flushing = false;
        self.metrics.record_sync(start, self.now);
        self.wake_job(task);
    }
}

/// A commit begins at once: returns the time of the event that it needs.
fn begin_now(journal: &mut Journal, now: Time) -> Option<Time> {
    journal.step = CommitStep::Due(now);
    // An event at this time is still to come if the timer is set to it.
    (journal.timer != Some(now)).then_some(now)
}
