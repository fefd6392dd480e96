//! Models of disks. A disk takes commands and decides when each is done.
//!
//! A new model needs one file with its `Spec` (the fields of the experiment's device) and its [`DiskModel`], and one
//! line in the registry below.

mod command_queue;
mod controller;
mod flash;
mod geometry;
mod hdd;
mod hdd_spec;
mod shingled;
mod throttled;
mod translation;

use std::fmt::Debug;

use crate::bio::Op;
use crate::events::{Event, EventQueue, Time};
use serde::{Deserialize, Serialize};

pub use controller::{Admission, Controller, ControllerSpec};
pub use flash::{Condition, FlashSpec};
pub use hdd_spec::{CommandOrder, HddSpec};
pub use throttled::ThrottledSpec;
pub use translation::FlashUse;

/// A command as a disk gets it.
#[derive(Clone, Copy, Debug)]
pub struct DiskCommand {
    pub request: u32, // The request's number, which the completion event names
    pub op: Op,       // A read, a write or a flush
    pub byte: u64,    // In bytes from the beginning of the disk
    pub bytes: u32,
    pub fua: bool, // Whether a write must be durable when it is done
}

/// A disk's access to the event queue.
pub struct DiskEvents<'a> {
    events: &'a mut EventQueue,
    target: u16,
}

impl<'a> DiskEvents<'a> {
    /// The number of the disk's own timer; every other timer number is a request.
    pub const OWN_TIMER: u32 = u32::MAX;

    /// For the disk below this target.
    pub fn new(events: &'a mut EventQueue, target: u16) -> Self {
        Self { events, target }
    }

    /// Plans the completion of a command.
    pub fn plan_completion(&mut self, time: Time, request: u32) {
        self.events.schedule(time, Event::timer(self.target, request));
    }

    /// Sets the disk's own timer.
    pub fn plan_timer(&mut self, time: Time) {
        self.plan_completion(time, Self::OWN_TIMER);
    }
}

/// How a disk behaves.
pub trait DiskModel: Debug {
    /// The parameters of such a disk in an experiment.
    type Spec;

    /// An idle disk.
    fn new(spec: &Self::Spec) -> Self;

    /// Takes a command, and plans its completion now or later.
    fn start(&mut self, now: Time, command: DiskCommand, events: &mut DiskEvents);

    /// The disk's own timer is due.
    fn timer(&mut self, _now: Time, _events: &mut DiskEvents) {}

    /// A range holds no data any more. It takes no time: no data sheet states it.
    fn discard(&mut self, _byte: u64, _bytes: u64) {}

    /// The work of the disk's parts.
    fn work(&self) -> DiskWork;

    /// Time in which the disk worked on something.
    fn busy_ns(&self) -> u64;
}

/// The work of a disk's parts. Times of parallel parts are their mean.
#[derive(Clone, Copy, Debug, Default, Serialize, crate::JsonSchema)]
pub struct DiskWork {
    /// Time in which the interface and the controller worked, in ns; 0 of a throttled disk.
    pub interface_ns: u64,
    /// Time in which the flash dies (their mean) or a rotating disk's mechanism worked, in ns; of a throttled disk, its
    /// busy time.
    pub media_ns: u64,
    /// Time in which writes with forced unit access became durable, in ns; 0 of disks that have none.
    pub durable_ns: u64,
    /// Reads answered from the disk's memory; of flash, pages of sequential reads.
    pub cache_hits: u64,
    /// Bytes that flash programmed, the copies of a used disk included; 0 of other disks.
    pub flash_bytes: u64,
    /// Bands that a shingled disk cleaned.
    pub bands_cleaned: u64,
    /// When a shingled disk's media cache, a disk's media log, or a flash disk's cache of single-bit cells was full for
    /// the first time, in ns of simulated time; otherwise `null`.
    pub media_cache_full_ns: Option<u64>,
}

/// The registry of models: the name in documents (in lower case), the specification, the model.
macro_rules! models {
    ($($(#[$doc:meta])* $kind:ident: $spec:ty => $model:ty;)+) => {
        /// How a disk behaves.
        #[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum Model {
            $($(#[$doc])* $kind($spec),)+
        }

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
            pub fn start(&mut self, now: Time, command: DiskCommand, events: &mut DiskEvents) {
                match self {
                    $(Self::$kind(disk) => disk.start(now, command, events),)+
                }
            }

            /// As [`DiskModel::timer`].
            pub fn timer(&mut self, now: Time, events: &mut DiskEvents) {
                match self {
                    $(Self::$kind(disk) => disk.timer(now, events),)+
                }
            }

            /// As [`DiskModel::discard`].
            pub fn discard(&mut self, byte: u64, bytes: u64) {
                match self {
                    $(Self::$kind(disk) => disk.discard(byte, bytes),)+
                }
            }

            /// As [`DiskModel::work`] and [`DiskModel::busy_ns`].
            pub fn counts(&self) -> (DiskWork, u64) {
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

/// I/Os per second that one core always does.
const ONE_CORE: f64 = 50_000.0;

impl Model {
    /// Whether it can serve more I/Os than a core submits: flash, or a virtual disk without limits.
    pub fn is_fast(&self) -> bool {
        let slow = |iops: f64| iops > 0.0 && iops < ONE_CORE;
        match self {
            Self::Hdd(_) => false,
            Self::Ssd(_) | Self::Nvme(_) => true,
            Self::Throttled(spec) => !(slow(spec.iops_total) || slow(spec.iops_read) && slow(spec.iops_write)),
        }
    }
}
