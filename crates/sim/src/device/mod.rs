//! Models of disks. A disk takes commands, and says when each is done.
//!
//! A new model is one file with its `Spec` (the fields of the experiment's device) and its [`DiskModel`], and one line
//! in the registry below.

mod flash;
mod geometry;
mod hdd;
mod throttled;

use std::fmt::Debug;

use crate::bio::Op;
use crate::events::{Event, Events, Time};
use serde::{Deserialize, Serialize};

pub use flash::FlashSpec;
pub use hdd::{HddSpec, Order};
pub use throttled::ThrottledSpec;

/// A command as a disk gets it.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The request's number, which the disk's answer names.
    pub request: u32,
    /// What is asked: a read, a write or a flush.
    pub op: Op,
    /// In bytes from the beginning of the disk.
    pub byte: u64,
    /// How many bytes.
    pub bytes: u32,
}

/// Where a disk plans what happens to it.
pub struct Plan<'a> {
    events: &'a mut Events,
    target: u16,
}

impl<'a> Plan<'a> {
    /// The timer of the disk itself; every other timer is a request.
    pub const OWN_TIMER: u32 = u32::MAX;

    /// For the disk below this target.
    #[inline]
    pub fn new(events: &'a mut Events, target: u16) -> Self {
        Self { events, target }
    }

    /// A command will be done at a time.
    #[inline]
    pub fn done(&mut self, time: Time, request: u32) {
        self.events.at(time, Event::timer(self.target, request));
    }

    /// The disk's own timer is due at a time.
    pub fn timer(&mut self, time: Time) {
        self.done(time, Self::OWN_TIMER);
    }
}

/// How a disk behaves.
pub trait DiskModel: Debug {
    /// What an experiment says of such a disk.
    type Spec;

    /// A disk at rest.
    fn new(spec: &Self::Spec) -> Self;

    /// Takes a command, and plans its completion now or later.
    fn start(&mut self, now: Time, command: Command, plan: &mut Plan);

    /// The disk's own timer is due.
    fn timer(&mut self, _now: Time, _plan: &mut Plan) {}

    /// What the disk's parts did.
    fn work(&self) -> Work;

    /// Time in which the disk worked on something.
    fn busy_ns(&self) -> u64;
}

/// What a disk's parts did. Times of parts that work side by side are their mean.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Work {
    /// The interface and the controller.
    pub interface_ns: u64,
    /// Flash dies, or a rotating disk's mechanism.
    pub media_ns: u64,
    /// Reads answered from the disk's memory.
    pub cache_hits: u64,
}

/// The registry of models: the name in documents (in lower case), the specification, the model.
macro_rules! models {
    ($($(#[$doc:meta])* $kind:ident: $spec:ty => $model:ty;)+) => {
        /// How a disk behaves.
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum Model {
            $($(#[$doc])* $kind($spec),)+
        }

        /// One disk.
        #[derive(Debug)]
        pub enum Disk {
            $($(#[$doc])* $kind($model),)+
        }

        impl Disk {
            /// The disk of a model, at rest.
            pub fn new(model: &Model) -> Self {
                match model {
                    $(Model::$kind(spec) => Self::$kind(<$model>::new(spec)),)+
                }
            }

            /// As [`DiskModel::start`].
            #[inline(always)]
            pub fn start(&mut self, now: Time, command: Command, plan: &mut Plan) {
                match self {
                    $(Self::$kind(disk) => disk.start(now, command, plan),)+
                }
            }

            /// As [`DiskModel::timer`].
            pub fn timer(&mut self, now: Time, plan: &mut Plan) {
                match self {
                    $(Self::$kind(disk) => disk.timer(now, plan),)+
                }
            }

            /// As [`DiskModel::work`] and [`DiskModel::busy_ns`].
            pub fn counts(&self) -> (Work, u64) {
                match self {
                    $(Self::$kind(disk) => (disk.work(), disk.busy_ns()),)+
                }
            }
        }
    };
}

models! {
    /// A flash disk behind SATA or SAS.
    Ssd: FlashSpec => flash::Flash;
    /// A flash disk behind PCIe.
    Nvme: FlashSpec => flash::Flash;
    /// A rotating disk.
    Hdd: HddSpec => hdd::Hdd;
    /// A virtual disk with QEMU's throttling and nothing else.
    Throttled: ThrottledSpec => throttled::Throttled;
}
