//! How a replay takes its turns.

use super::{Role, Simulation};
use crate::bio::{Flags, Op};
use crate::events::Event;
use crate::task::replay::ReplayIo;

impl Simulation {
    /// A replay's turn: an I/O is due, one is done, or a tag is free.
    #[inline(never)]
    pub(super) fn run_replay(&mut self, number: u32) {
        let now = self.now;
        let task = &mut self.tasks[number as usize];
        let Role::Replay(replay) = &mut task.role else { return };
        task.sleeping = false;
        if replay.is_timed() {
            // While it sleeps in a queue, what is due gets in line; only who wakes it sends the line on.
            let due = replay.planned == Some(now);
            if due {
                replay.planned = None;
                self.replay_due(number);
            }
            let task = &mut self.tasks[number as usize];
            if !(task.blocked && due) {
                task.blocked = false;
                if self.send_work(number) {
                    self.unplug(number);
                }
            }
            self.replay_plan(number);
            return;
        }
        if task.blocked {
            task.blocked = false;
        } else {
            match replay.take(now) {
                Ok(Some(io)) => self.replay_io(number, &io),
                Ok(None) => {
                    task.sleeping = true;
                    return self.replay_plan(number);
                }
                Err(error) => return self.fail(error),
            }
        }
        if self.send_work(number) {
            self.unplug(number);
            let cost = self.submission();
            self.events.at(now + cost, Event::task(number));
        }
    }

    /// Puts everything that is due into the line.
    fn replay_due(&mut self, number: u32) {
        loop {
            let Role::Replay(replay) = &mut self.tasks[number as usize].role else { return };
            match replay.take(self.now) {
                Ok(Some(io)) => self.replay_io(number, &io),
                Ok(None) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    fn replay_io(&mut self, number: u32, io: &ReplayIo) {
        self.make_io(number, io.op, io.sector, io.bytes, Flags::DIRECT);
    }

    /// Plans the next turn of a replay at recorded times; ends a replay that is over.
    fn replay_plan(&mut self, number: u32) {
        let task = &mut self.tasks[number as usize];
        let Role::Replay(replay) = &mut task.role else { return };
        if replay.is_over() && !task.finished {
            task.finished = true;
            self.running -= 1;
        } else if let (true, None, Some(due)) = (replay.is_timed(), replay.planned, replay.due()) {
            let due = due.max(self.now);
            replay.planned = Some(due);
            self.events.at(due, Event::task(number));
        }
    }

    /// An I/O of a replay is done. It counts from when it was due, whatever it waited for.
    pub(super) fn end_replay_io(&mut self, number: u32, io: u32) {
        let done = self.ios[io as usize];
        self.free_ios.push(io);
        let task = &mut self.tasks[number as usize];
        let Role::Replay(replay) = &mut task.role else { return };
        replay.in_flight -= 1;
        if done.op != Op::Flush {
            self.metrics.count(task.group, done.op, done.bytes, done.start, self.now);
        }
        if std::mem::replace(&mut task.sleeping, false) {
            self.events.at(self.now + self.host.wake_ns, Event::task(number));
        } else if replay.is_over() {
            self.replay_plan(number);
        }
    }
}

#[cfg(test)]
mod tests;
