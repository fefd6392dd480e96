//! The engine: it plays the events of one run, and holds everything that is in it.
//!
//! A bio goes down through the arrays to a disk's queue (`submit`), becomes or joins a request, and comes back up
//! when the disk is done (`complete`). Tasks submit bios one by one at their own pace, and sleep where the kernel
//! would let them sleep: for a tag, in the writeback throttle, for a completion.

#[cfg(test)]
mod anything;
mod arrays;
mod build;
pub use build::Built;
mod play;
mod replay;
#[cfg(test)]
mod tests;

use crate::bio::{Bio, Bios, NONE, Op};
use crate::cell::Host;
use crate::error::SimError;
use crate::events::{Event, Events, Time};
use crate::md::Array;
use crate::outcome::Gathering;
use crate::queue::request::Requests;
use crate::queue::{Admission, Queue};
use crate::rng::Rng;
use crate::task::Task;

/// One node of the stack.
#[derive(Debug)]
enum Node {
    Disk(Box<Queue>),
    Array(Box<Array>),
}

/// A task's I/O in flight.
#[derive(Clone, Copy, Debug)]
struct Io {
    task: u32,
    op: Op,
    bytes: u32,
    start: Time,
}

/// A run.
#[derive(Debug)]
pub struct World {
    now: Time,
    events: Events,
    bios: Bios,
    requests: Requests,
    nodes: Vec<Node>,
    top: u16,
    tasks: Vec<Task>,
    ios: Vec<Io>,
    free_ios: Vec<u32>,
    host: Host,
    /// Arrays between the top and the disks: each costs processor time.
    depth: u64,
    runtime: Time,
    /// A trace is replayed: it ends with the runtime, however much waits.
    replays: bool,
    max_ios: u64,
    gathering: Gathering,
    /// The journal's task, if there is a filesystem.
    journal: Option<u32>,
    /// Tasks that wait until the journal lets them write.
    held: Vec<u32>,
    woken: Vec<u32>,
    /// Jobs and replays that are not finished.
    running: usize,
    disk_ios: u64,
    /// Time that jobs have spent on their processors.
    processor: Time,
    /// What ends the run before its time.
    failure: Option<SimError>,
    rng: Rng,
}

impl World {
    /// Sends a task's queued bios down, until all are in queues or one must wait.
    fn send_work(&mut self, task: u32) -> bool {
        while let Some(&number) = self.tasks[task as usize].work.front() {
            if !self.submit(task, number) {
                self.tasks[task as usize].blocked = true;
                self.unplug(task);
                return false;
            }
        }
        true
    }

    /// Sends the task's first bio one level down. False if the task must sleep.
    #[inline]
    fn submit(&mut self, task: u32, number: u32) -> bool {
        let owner = &mut self.tasks[task as usize];
        match &mut self.nodes[self.bios[number].node as usize] {
            Node::Array(array) => {
                if array.gated {
                    return self.enter(task, number);
                }
                owner.work.pop_front();
                let before = owner.work.len();
                array.map(number, &mut self.bios, &mut owner.work);
                // What an array makes goes before what came after the bio.
                let made = owner.work.len() - before;
                if before > 0 {
                    owner.work.rotate_right(made);
                }
                if made == 0 {
                    self.bio_done(number);
                }
                true
            }
            Node::Disk(queue) => {
                if self.bios[number].sectors > queue.max_sectors {
                    let most = queue.max_sectors;
                    self.split(task, number, most);
                    return true;
                }
                match queue.admit(self.now, task, number, &owner.plug, &mut self.bios, &mut self.requests) {
                    Admission::Full => return false,
                    Admission::Merged => {}
                    Admission::Request(request) => owner.plug.push(request),
                }
                owner.work.pop_front();
                true
            }
        }
    }

    /// A task's first bio is larger than a request of its disk may be: it goes as several (`blk_bio_segment_split`).
    #[cold]
    fn split(&mut self, task: u32, number: u32, most: u32) {
        let bio = self.bios[number];
        let parts = bio.sectors.div_ceil(most);
        self.bios[number].parts = parts;
        let work = &mut self.tasks[task as usize].work;
        work.pop_front();
        for part in (0..parts).rev() {
            let sector = bio.sector + u64::from(part * most);
            let sectors = most.min(bio.sectors - part * most);
            work.push_front(self.bios.add(Bio {
                sector,
                sectors,
                parent: number,
                parts: 0,
                phase: 0,
                next: NONE,
                ..bio
            }));
        }
    }

    /// The system call ends: what was held back goes into the elevators.
    #[inline]
    fn unplug(&mut self, task: u32) {
        if !self.tasks[task as usize].plug.is_empty() {
            self.unplug_all(task);
        }
        // Rows may be held beside requests: a plug may have reads of members as well.
        if !self.tasks[task as usize].touched.is_empty() {
            self.release(task);
        }
    }

    #[inline]
    fn unplug_all(&mut self, task: u32) {
        // Nearly always there is one.
        let plug = &mut self.tasks[task as usize].plug;
        if let [only] = plug[..] {
            plug.clear();
            return self.insert(only);
        }
        let mut plug = std::mem::take(plug);
        for &number in &plug {
            self.insert(number);
        }
        plug.clear();
        self.tasks[task as usize].plug = plug;
    }

    #[inline]
    fn insert(&mut self, number: u32) {
        let node = self.requests[number].node as usize;
        if let Node::Disk(queue) = &mut self.nodes[node] {
            queue.insert(self.now, number, &mut self.requests, &mut self.events);
        }
    }

    /// A disk is done with a request.
    #[inline]
    fn complete(&mut self, number: u32) {
        let (node, first) = (self.requests[number].node as usize, self.requests[number].first);
        self.disk_ios += 1;
        if let Node::Disk(queue) = &mut self.nodes[node] {
            queue.complete(self.now, number, &self.requests, &mut self.woken);
        }
        let mut next = first;
        while next != NONE {
            let bio = next;
            next = self.bios[bio].next;
            self.bio_done(bio);
        }
        self.requests.remove(number);
        if let Node::Disk(queue) = &mut self.nodes[node] {
            queue.dispatch(self.now, &mut self.requests, &mut self.events);
        }
        for task in self.woken.drain(..) {
            self.events.at(self.now + self.host.wake_ns, Event::Task(task));
        }
    }

    /// A bio is done, and perhaps the bio that it is a part of, and so on up.
    #[inline]
    fn bio_done(&mut self, mut number: u32) {
        loop {
            let Bio { parent: above, io, phase, .. } = self.bios[number];
            if phase != 0 {
                let bio = self.bios[number];
                if self.tell_array(&bio) {
                    self.bios.remove(number);
                    return;
                }
            }
            if above == NONE {
                self.bios.remove(number);
                self.io_done(io);
                return;
            }
            let parent = &mut self.bios[above];
            parent.parts -= 1;
            let (rest, node) = (parent.parts, parent.node);
            if let Node::Array(array) = &mut self.nodes[node as usize] {
                array.part_done(&self.bios[number]);
            }
            self.bios.remove(number);
            if rest > 0 {
                return;
            }
            number = above;
        }
    }

    /// Makes an I/O of a task and queues its bio at the top of the stack.
    #[inline]
    fn make_io(&mut self, task: u32, op: Op, sector: u64, bytes: u32, direct: bool) {
        let io = Io { task, op, bytes, start: self.now };
        let number = match self.free_ios.pop() {
            Some(number) => {
                self.ios[number as usize] = io;
                number
            }
            None => {
                self.ios.push(io);
                self.ios.len() as u32 - 1
            }
        };
        let bio = Bio {
            node: self.top,
            slot: 0,
            op,
            direct,
            phase: 0,
            sector,
            sectors: bytes / 512,
            parent: NONE,
            io: number,
            parts: 0,
            next: NONE,
        };
        let bio = self.bios.add(bio);
        self.tasks[task as usize].work.push_back(bio);
    }
}
