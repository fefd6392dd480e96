//! How a replay submits I/Os.

use super::{Role, Simulation, TaskIo};
use crate::bio::{Flags, Op};
use crate::events::Event;
use crate::task::replay::ReplayIo;

impl Simulation {
    /// Runs a replay: an I/O is due, one is done, or a tag is free.
    #[inline(never)]
    pub(super) fn run_replay(&mut self, number: u32) {
        let now = self.now;
        let task = &mut self.tasks[number as usize];
        let Role::Replay(replay) = &mut task.role else { return };
        task.sleeping = false;
        if replay.timed {
            // While it sleeps in a queue, due I/Os are queued behind; only the wake-up from that queue sends them.
            let due = replay.planned == Some(now);
            if due {
                replay.planned = None;
                self.queue_due_ios(number);
            }
            let task = &mut self.tasks[number as usize];
            if !(task.blocked && due) {
                task.blocked = false;
                if self.send_queued_bios(number) {
                    self.unplug(number);
                }
            }
            self.plan_replay(number);
            return;
        }
        if task.blocked {
            task.blocked = false;
        } else {
            match replay.take_due(now) {
                Ok(Some(io)) => self.submit_replay_io(number, &io),
                Ok(None) => {
                    task.sleeping = true;
                    return self.plan_replay(number);
                }
                Err(error) => return self.fail_run(error),
            }
        }
        if self.send_queued_bios(number) {
            self.unplug(number);
            let end = self.charge_submission_cost(number);
            self.events.schedule(end, Event::task(number));
        }
    }

    /// Queues all I/Os that are due.
    fn queue_due_ios(&mut self, number: u32) {
        loop {
            let Role::Replay(replay) = &mut self.tasks[number as usize].role else { return };
            match replay.take_due(self.now) {
                Ok(Some(io)) => self.submit_replay_io(number, &io),
                Ok(None) => return,
                Err(error) => return self.fail_run(error),
            }
        }
    }

    fn submit_replay_io(&mut self, number: u32, io: &ReplayIo) {
        let Role::Replay(replay) = &self.tasks[number as usize].role else { return };
        let timed = io.waited || !replay.waited_only;
        let io_of_task = TaskIo { task: number, op: io.op, bytes: io.bytes, start: self.now, timed };
        self.submit_task_io(io_of_task, io.sector, Flags::DIRECT);
    }

    /// Plans the next run of a replay at recorded times; ends a finished replay.
    fn plan_replay(&mut self, number: u32) {
        let task = &mut self.tasks[number as usize];
        let Role::Replay(replay) = &mut task.role else { return };
        if replay.is_finished() && !task.finished {
            task.finished = true;
            self.running -= 1;
        } else if let (true, None, Some(due)) = (replay.timed, replay.planned, replay.due()) {
            let due = due.max(self.now);
            replay.planned = Some(due);
            self.events.schedule(due, Event::task(number));
        }
    }

    /// Completes an I/O of a replay. Its latency counts from when it was due, waiting included.
    pub(super) fn end_replay_io(&mut self, number: u32, io: u32) {
        let done = self.ios.remove(io);
        let task = &mut self.tasks[number as usize];
        let Role::Replay(replay) = &mut task.role else { return };
        replay.in_flight -= 1;
        if done.op != Op::Flush {
            if done.timed {
                self.metrics.record_io(task.group, done.op, done.bytes, done.start, self.now);
            } else {
                self.metrics.record_background_io(task.group, done.op, done.bytes, done.start, self.now);
            }
        }
        if std::mem::replace(&mut task.sleeping, false) {
            self.events.schedule(self.now + self.host.wake_ns, Event::task(number));
        } else if replay.is_finished() {
            self.plan_replay(number);
        }
    }
}

#[cfg(test)]
mod tests;
