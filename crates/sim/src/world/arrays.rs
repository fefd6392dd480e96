//! What arrays do beside mapping: bios that wait in them, and their threads.

use super::{Node, World};
use crate::bio::Bio;
use crate::events::Event;
use crate::md::sync::Step;
use crate::md::{Array, Entered, HELD, phase};

/// Requests that a plug holds at most (block/blk-mq.c, `BLK_MAX_REQUEST_COUNT` of several queues).
const PLUG: usize = 32;

impl World {
    fn array(&mut self, node: u16) -> &mut Array {
        match &mut self.nodes[node as usize] {
            Node::Array(array) => array,
            Node::Disk(_) => unreachable!("node {node} is a disk"),
        }
    }

    /// A task's first bio comes to an array that may keep it, or make the task wait: false.
    pub(super) fn enter(&mut self, task: u32, number: u32) -> bool {
        let owner = &mut self.tasks[task as usize];
        let Node::Array(array) = &mut self.nodes[self.bios[number].node as usize] else { return true };
        let entered = array.enter(task, number, &mut self.bios, &mut owner.touched);
        let sync = array.sync_to_wake();
        if let Some(task) = sync {
            self.wake(task);
        }
        if entered == Entered::Wait {
            return false;
        }
        let owner = &mut self.tasks[task as usize];
        let Node::Array(array) = &mut self.nodes[self.bios[number].node as usize] else { return true };
        owner.work.pop_front();
        if entered == Entered::Through {
            let before = owner.work.len();
            array.map(number, &mut self.bios, &mut owner.work);
            let made = owner.work.len() - before;
            owner.work.rotate_right(made);
            if made == 0 {
                self.bio_done(number);
            }
        }
        if entered == Entered::Done {
            self.bio_done(number);
        }
        true
    }

    /// A task's plug lets go of the rows that it held.
    pub(super) fn release(&mut self, task: u32) {
        let mut touched = std::mem::take(&mut self.tasks[task as usize].touched);
        for &(node, entry) in &touched {
            if entry == HELD {
                if let Some(bitmap) = &mut self.array(node).bitmap {
                    bitmap.ask();
                }
                self.wake_bitmap(node);
            } else if self.array(node).stripes().is_some_and(|stripes| stripes.release(entry)) {
                self.wake_thread(node);
            }
        }
        touched.clear();
        self.tasks[task as usize].touched = touched;
    }

    /// A bio is done of which its array wants to know. True if that is all: it was the array's own.
    #[cold]
    pub(super) fn tell_array(&mut self, bio: &Bio) -> bool {
        let now = self.now;
        if bio.phase == phase::BITMAP {
            let node = bio.io as u16;
            if self.array(node).bitmap.as_mut().is_some_and(|bitmap| bitmap.io_done()) {
                self.wake_bitmap(node);
            }
            return true;
        }
        let array = self.array(bio.node);
        match bio.phase {
            phase::ROW => {
                if array.stripes().is_some_and(|stripes| stripes.io_done(bio.io)) {
                    self.wake_thread(bio.node);
                }
            }
            phase::SYNC => {
                array.sync_io_done(bio.io);
                self.wake_sync(bio.node);
            }
            _ => {
                let daemon = array.leave(bio, now);
                let sync = array.sync_to_wake();
                if daemon {
                    self.arm_bitmap(bio.node);
                }
                if let Some(task) = sync {
                    self.wake(task);
                }
                return false;
            }
        }
        true
    }

    /// Something is done that an array's sync may wait for; and tasks that it kept waiting go on.
    fn wake_sync(&mut self, node: u16) {
        let array = self.array(node);
        let woken = array.barrier.as_mut().map_or(Vec::new(), |barrier| barrier.take_woken());
        if let Some(sync) = &array.sync {
            let task = sync.task;
            self.wake(task);
        }
        for task in woken {
            self.events.at(self.now + self.host.wake_ns, Event::Task(task));
        }
    }

    /// A thread goes on, if it sleeps.
    fn wake(&mut self, number: u32) {
        if std::mem::take(&mut self.tasks[number as usize].sleeping) {
            self.events.at(self.now + self.host.wake_ns, Event::Task(number));
        }
    }

    /// The array has something to do for its thread.
    fn wake_thread(&mut self, node: u16) {
        let number = self.array(node).thread;
        self.wake(number);
    }

    /// The bitmap's task has something to do.
    fn wake_bitmap(&mut self, node: u16) {
        if let Some(bitmap) = &self.array(node).bitmap {
            let task = bitmap.task;
            self.wake(task);
        }
    }

    /// Plans when the bitmap's daemon runs next.
    fn arm_bitmap(&mut self, node: u16) {
        if let Some(bitmap) = &self.array(node).bitmap
            && let Some(due) = bitmap.due()
        {
            let event = Event::Task(bitmap.task);
            self.events.at(due, event);
        }
    }

    /// An array's bitmap: writes pages, and passes on the writes that waited for them.
    pub(super) fn bitmap(&mut self, number: u32, node: u16) {
        let task = &mut self.tasks[number as usize];
        let Node::Array(array) = &mut self.nodes[node as usize] else { return };
        let due = |array: &Array| array.bitmap.as_ref().and_then(|bitmap| bitmap.due());
        let before = due(array);
        task.sleeping = false;
        let went_on = array.bitmap_step(self.now, &mut self.bios, &mut task.work);
        task.sleeping = !went_on;
        if due(array) != before {
            self.arm_bitmap(node);
        }
        if !went_on {
            // What was passed on after it had to wait is still held by the plug.
            self.unplug(number);
        } else if self.send_work(number) {
            self.unplug(number);
            self.events.at(self.now + self.host.md_ns, Event::Task(number));
        }
    }

    /// An array's sync does one step (`md_do_sync`).
    pub(super) fn sync(&mut self, number: u32, node: u16) {
        let now = self.now;
        let task = &mut self.tasks[number as usize];
        let Node::Array(array) = &mut self.nodes[node as usize] else { return };
        // Of what wakes it at other times than it has planned itself, only what finds it asleep counts.
        if array.sync.as_ref().is_none_or(|sync| now < sync.busy_until) {
            return;
        }
        task.sleeping = false;
        let step = array.sync_step(now, &mut self.bios, &mut task.work);
        let parity = array.has_parity();
        self.wake_sync(node);
        match step {
            Step::Submit(ends) => {
                if parity {
                    self.wake_thread(node);
                }
                if !self.send_work(number) {
                    return;
                }
                if ends {
                    self.unplug(number);
                }
                let next = now + self.host.submit_ns + self.host.md_ns;
                if let Some(sync) = &mut self.array(node).sync {
                    sync.busy_until = next;
                }
                self.events.at(next, Event::Task(number));
            }
            Step::Sleep => {
                self.tasks[number as usize].sleeping = true;
                self.unplug(number);
            }
            Step::Until(time) => {
                self.tasks[number as usize].sleeping = true;
                self.unplug(number);
                self.events.at(time, Event::Task(number));
            }
            Step::Finished => {
                self.tasks[number as usize].finished = true;
                self.unplug(number);
            }
        }
    }

    /// The array's thread handles one row, or sleeps (`raid5d`). Its plug stays until there is nothing left to do.
    pub(super) fn thread(&mut self, number: u32, node: u16) {
        let (mut done, mut woken) = (Vec::new(), Vec::new());
        let task = &mut self.tasks[number as usize];
        let Node::Array(array) = &mut self.nodes[node as usize] else { return };
        let Some(entry) = array.stripes().and_then(|stripes| stripes.pop()) else {
            task.sleeping = true;
            self.unplug(number);
            return;
        };
        let stripes = array.stripes().expect("it has rows");
        let issue = stripes.handle(entry, &mut self.bios, &mut done, &mut woken);
        let pages = issue.map_or(0, |issue| issue.slots.count_ones());
        if let Some(issue) = issue {
            array.issue(entry, issue, &mut self.bios, &mut task.work);
        }
        for task in woken {
            self.events.at(self.now + self.host.wake_ns, Event::Task(task));
        }
        let rows = self.array(node).stripes().map_or(0, |stripes| std::mem::take(&mut stripes.synced_rows));
        if rows > 0 {
            self.array(node).rows_synced(rows);
            self.wake_sync(node);
        }
        for bio in done {
            self.bio_done(bio);
        }
        if !self.send_work(number) {
            return;
        }
        if self.tasks[number as usize].plug.len() >= PLUG {
            self.unplug(number);
        }
        // An estimate: each page costs as much as a bio through two arrays, parity included. One thread then makes
        // some 150,000 small writes a second, and 2 to 3 GB/s of full stripes.
        let cost = self.host.md_ns * (1 + 2 * u64::from(pages));
        self.events.at(self.now + cost, Event::Task(number));
    }
}
