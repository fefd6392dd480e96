//! Models of disks. A disk takes requests, and says when each is done.

mod flash;
mod geometry;
mod hdd;
mod throttled;

use crate::bio::Op;
use crate::cell::Model;
use crate::events::{Event, Events, Time};
use crate::outcome::Work;

pub use flash::Flash;
pub use hdd::Hdd;
pub use throttled::Throttled;

/// A command as a disk gets it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The request's number, which the disk's answer names.
    pub request: u32,
    /// What is asked.
    pub op: Op,
    /// In bytes from the beginning of the disk.
    pub byte: u64,
    /// How many bytes.
    pub bytes: u32,
}

/// One disk.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few disks, and flash is the one that must be near")]
pub enum Disk {
    /// Flash behind any interface.
    Flash(Flash),
    /// A rotating disk.
    Hdd(Box<Hdd>),
    /// A throttled virtual disk.
    Throttled(Throttled),
}

impl Disk {
    /// The disk of a model; `node` is what its own events carry.
    pub fn new(model: &Model, node: u32) -> Self {
        match model {
            Model::Ssd(flash) | Model::Nvme(flash) => Self::Flash(Flash::new(flash)),
            Model::Hdd(hdd) => Self::Hdd(Box::new(Hdd::new(hdd, node))),
            Model::Throttled(limits) => Self::Throttled(Throttled::new(limits, node)),
        }
    }

    /// Gives the disk a command; it plans its completion now or later.
    #[inline(always)]
    pub fn start(&mut self, now: Time, command: Command, events: &mut Events) {
        match self {
            Self::Flash(flash) => events.at(flash.completion(now, &command), Event::Done(command.request)),
            Self::Hdd(hdd) => hdd.start(now, command, events),
            Self::Throttled(disk) => disk.start(now, command, events),
        }
    }

    /// The disk's mechanism is free, or its timer is due: an event that only it has asked for.
    pub fn mechanism_free(&mut self, now: Time, events: &mut Events) {
        match self {
            Self::Flash(_) => {}
            Self::Hdd(hdd) => hdd.mechanism_free(now, events),
            Self::Throttled(disk) => disk.timer(now, events),
        }
    }

    /// What the disk's parts did.
    pub fn work(&self) -> Work {
        match self {
            Self::Flash(flash) => flash.work(),
            Self::Hdd(hdd) => hdd.work(),
            Self::Throttled(disk) => Work { media_ns: disk.busy_ns(), ..Work::default() },
        }
    }

    /// Time in which the disk worked on something.
    pub fn busy_ns(&self) -> u64 {
        match self {
            Self::Flash(flash) => flash.busy_ns(),
            Self::Hdd(hdd) => hdd.busy_ns(),
            Self::Throttled(disk) => disk.busy_ns(),
        }
    }
}
