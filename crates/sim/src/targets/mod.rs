//! The registry of targets, and how a stack is built from its description.
//!
//! A new kind of target needs one file with its description and report ([`TargetSpec`]), the target itself
//! ([`Target`](crate::engine::Target)), and one line in the registry below.

pub mod bcache;
pub mod delay;
pub mod dm_cache;
pub mod job_blocks;
pub mod locks;
pub mod md;
pub mod queue;
#[cfg(test)]
pub(crate) mod tests;
pub mod writecache;

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::device::Controller;
use crate::engine::{Child, Limits, Target};
use crate::error::SimError;
use crate::kernel::Kernel;
use crate::load::{Host, Job};
use queue::{Device, DiskQueue, DiskStats};

/// The description of a target in an experiment.
pub trait TargetSpec {
    /// The target that is built from it.
    type Target: Target;

    /// What the target reports at the end of a run.
    type Report;

    /// The nodes below it, by slot; `None` is a missing member.
    fn children(&self) -> Vec<Option<&Node>>;

    /// Builds the target with the number `id`, and tells its size and properties. An error is one line.
    fn build(&self, id: u16, children: &[Option<Child>], context: &BuildContext) -> Built<Self::Target>;

    /// Makes the report.
    fn report(target: &Self::Target) -> Self::Report;
}

/// The result of [`TargetSpec::build`].
pub type Built<T> = Result<(T, Limits), String>;

/// What targets must know when they are built.
pub struct BuildContext<'a> {
    pub kernel: Kernel,                                          // The kernel generation
    pub host: &'a Host,                                          // Processor time for an I/O
    pub filesystem: bool,                                        // Whether the load uses a filesystem
    pub jobs: &'a [Job],  // The jobs that use the stack, which tell what a cache holds at first
    pub ran_before: bool, // Whether the load ran before
    pub release: &'a str, // The kernel as the cell names it
    pub controllers: BTreeMap<&'a str, Rc<RefCell<Controller>>>, // What disks share
}

/// The registry of targets: the name (lower case in documents) and the description.
macro_rules! targets {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $kind:ident($spec:ty);)+) => {
        /// A disk, or a target above others.
        #[derive(Clone, Debug, Serialize, Deserialize, crate::JsonSchema)]
        #[serde(rename_all = "lowercase", deny_unknown_fields)]
        pub enum Node {
            /// Index of the disk in `devices` of the cell.
            Device(usize),
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $kind($spec),)+
        }

        /// The report of a target.
        #[derive(Clone, Debug, Serialize, crate::JsonSchema)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum TargetReport {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $kind(<$spec as TargetSpec>::Report),)+
        }

        impl StackBuilder<'_> {
            fn build_node(&mut self, node: &Node) -> Result<Child, SimError> {
                match node {
                    Node::Device(index) => self.build_disk(*index),
                    $($(#[cfg($cfg)])? Node::$kind(spec) => self.build_target(spec),)+
                }
            }
        }

        fn target_report(target: &dyn Any) -> Option<TargetReport> {
            $($(#[cfg($cfg)])? if let Some(target) = target.downcast_ref::<<$spec as TargetSpec>::Target>() {
                return Some(TargetReport::$kind(<$spec>::report(target)));
            })+
            None
        }
    };
}

targets! {
    /// An md array.
    Md(md::Md);
    /// A delay.
    Delay(delay::Delay);
    /// A logical volume with a dm-cache.
    LvmCache(dm_cache::LvmCache);
    /// A backing device with a bcache.
    Bcache(bcache::Bcache);
    /// A device with a dm-writecache.
    Writecache(writecache::Writecache);
    /// Fails, for tests.
    #[cfg(test)]
    Faulty(tests::Faulty);
}

struct StackBuilder<'a> {
    devices: &'a [Device],
    used: Vec<bool>,
    context: &'a BuildContext<'a>,
    targets: Vec<Box<dyn Target>>,
}

impl StackBuilder<'_> {
    fn build_disk(&mut self, index: usize) -> Result<Child, SimError> {
        let device = self.devices.get(index).ok_or_else(|| {
            SimError::Stack(format!("device {index} does not exist: only {} devices are given", self.devices.len()))
        })?;
        if std::mem::replace(&mut self.used[index], true) {
            return Err(SimError::Stack(format!("device {} is used twice: use each device once", device.name)));
        }
        let shared = |name: &String| {
            let unknown = || SimError::Stack(format!("device {}: there is no controller {name:?}", device.name));
            self.context.controllers.get(name.as_str()).cloned().ok_or_else(unknown)
        };
        let controller = device.controller.as_ref().map(shared).transpose()?;
        let id = self.next_id()?;
        let (sectors, rotational) = (device.bytes / 512, device.queue.rotational);
        let limits = Limits {
            sectors,
            rotational,
            fast: device.model.is_fast(),
            short_write_ns: device.short_write_ns(),
            ..Limits::default()
        };
        Ok(self.add_target(id, (DiskQueue::new(device, id, self.context.kernel, controller), limits)))
    }

    fn build_target<S: TargetSpec>(&mut self, spec: &S) -> Result<Child, SimError> {
        let children: Vec<Option<Child>> = (spec.children().into_iter())
            .map(|child| child.map(|node| self.build_node(node)).transpose())
            .collect::<Result<_, _>>()?;
        let id = self.next_id()?;
        Ok(self.add_target(id, spec.build(id, &children, self.context).map_err(SimError::Stack)?))
    }

    fn next_id(&self) -> Result<u16, SimError> {
        u16::try_from(self.targets.len())
            .map_err(|_| SimError::Stack("too many devices and targets: expected at most 65,536".into()))
    }

    fn add_target(&mut self, id: u16, (target, limits): (impl Target, Limits)) -> Child {
        self.targets.push(Box::new(target));
        Child { target: id, limits }
    }
}

/// What is built of a cell.
pub struct BuiltStack {
    pub targets: Vec<Box<dyn Target>>, // All targets, those of a stack from the lowest up
    pub top: Child,                    // What jobs submit to
    pub journal: Option<Child>,        // What the journal is on, if that is not the stack
}

/// Builds a stack, and what the journal is on.
pub fn build(
    stack: &Node, journal: Option<&Node>, devices: &[Device], context: &BuildContext,
) -> Result<BuiltStack, SimError> {
    let used = vec![false; devices.len()];
    let mut builder = StackBuilder { devices, used, context, targets: Vec::new() };
    let top = builder.build_node(stack)?;
    let journal = journal.map(|node| builder.build_node(node)).transpose()?;
    Ok(BuiltStack { targets: builder.targets, top, journal })
}

/// The reports of disks and of other targets.
pub fn reports(targets: Vec<Box<dyn Target>>) -> (Vec<DiskStats>, Vec<TargetReport>) {
    let (mut disks, mut others) = (Vec::new(), Vec::new());
    for target in targets {
        let target: Box<dyn Any> = target;
        match target.downcast_ref::<DiskQueue>() {
            Some(queue) => disks.push(queue.report()),
            None => others.extend(target_report(&*target)),
        }
    }
    (disks, others)
}
