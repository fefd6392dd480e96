//! What stacks are made of: the registry of targets, and how a stack is built from its description.
//!
//! A new kind of target is one file with its description ([`TargetSpec`]), the target itself
//! ([`Target`](crate::engine::Target)) and what it reports ([`Reported`]), and one line in the registry below.

pub mod delay;
pub mod md;
pub mod queue;
#[cfg(test)]
mod tests;

use std::any::Any;

use serde::{Deserialize, Serialize};

use crate::engine::{Child, Target};
use crate::error::SimError;
use crate::kernel::Kernel;
use crate::load::Host;
use queue::{Device, DiskStats, Queue};

/// What an experiment says of a target.
pub trait TargetSpec {
    /// What is built from it.
    type Target: Target + Reported;

    /// What lies beneath it, by slot; none is a missing member.
    fn children(&self) -> Vec<Option<&Node>>;

    /// Builds the target, whose number is `id`. The error is one line.
    fn build(
        &self,
        id: u16,
        children: &[Option<Child>],
        environment: &Environment,
    ) -> Result<Self::Target, String>;
}

/// What a target has to say when a run is over.
pub trait Reported {
    /// What it says.
    type Report;

    /// Says it.
    fn report(&self) -> Self::Report;
}

/// What a target is built in.
#[derive(Debug)]
pub struct Environment<'a> {
    /// The kernel generation.
    pub kernel: Kernel,
    /// What the processor needs for an I/O.
    pub host: &'a Host,
    /// Whether the load is a filesystem's.
    pub filesystem: bool,
}

/// The registry of targets: the name (in documents in lower case), and what describes one.
macro_rules! targets {
    ($($(#[doc = $doc:literal])* $(#[cfg($cfg:meta)])? $kind:ident($spec:ty);)+) => {
        /// A disk, or a target over others.
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase", deny_unknown_fields)]
        pub enum Node {
            /// The disk at this place of the cell's list.
            Device(usize),
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $kind($spec),)+
        }

        /// What a target did.
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[derive(Clone, Debug, Serialize)]
        #[serde(tag = "kind", rename_all = "lowercase")]
        pub enum TargetReport {
            $($(#[doc = $doc])* $(#[cfg($cfg)])? $kind(<<$spec as TargetSpec>::Target as Reported>::Report),)+
        }

        impl Builder<'_> {
            fn node(&mut self, node: &Node) -> Result<Child, SimError> {
                match node {
                    Node::Device(index) => self.device(*index),
                    $($(#[cfg($cfg)])? Node::$kind(spec) => self.target(spec),)+
                }
            }
        }

        fn report(target: &dyn Any) -> Option<TargetReport> {
            $($(#[cfg($cfg)])? if let Some(target) = target.downcast_ref::<<$spec as TargetSpec>::Target>() {
                return Some(TargetReport::$kind(target.report()));
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
    /// Fails, for tests.
    #[cfg(test)]
    Faulty(tests::Faulty);
}

struct Builder<'a> {
    devices: &'a [Device],
    used: Vec<bool>,
    environment: &'a Environment<'a>,
    targets: Vec<Box<dyn Target>>,
}

impl Builder<'_> {
    fn device(&mut self, index: usize) -> Result<Child, SimError> {
        let device = self.devices.get(index).ok_or_else(|| SimError::Stack(format!("no device {index}")))?;
        if std::mem::replace(&mut self.used[index], true) {
            return Err(SimError::Stack(format!("device {} is used twice", device.name)));
        }
        let id = self.next_id()?;
        Ok(self.add(id, Queue::new(device, id, self.environment.kernel)))
    }

    fn target<S: TargetSpec>(&mut self, spec: &S) -> Result<Child, SimError> {
        let children: Vec<Option<Child>> = (spec.children().into_iter())
            .map(|child| child.map(|node| self.node(node)).transpose())
            .collect::<Result<_, _>>()?;
        let id = self.next_id()?;
        let target = spec.build(id, &children, self.environment).map_err(SimError::Stack)?;
        Ok(self.add(id, target))
    }

    fn next_id(&self) -> Result<u16, SimError> {
        u16::try_from(self.targets.len())
            .map_err(|_| SimError::Stack("more than 65,536 devices and arrays".into()))
    }

    fn add(&mut self, id: u16, target: impl Target) -> Child {
        let limits = target.limits();
        self.targets.push(Box::new(target));
        Child { target: id, limits }
    }
}

/// Builds a stack: its targets, those beneath first, and the one on top.
pub fn build(
    stack: &Node,
    devices: &[Device],
    environment: &Environment,
) -> Result<(Vec<Box<dyn Target>>, Child), SimError> {
    let used = vec![false; devices.len()];
    let mut builder = Builder { devices, used, environment, targets: Vec::new() };
    let top = builder.node(stack)?;
    Ok((builder.targets, top))
}

/// What disks and other targets did.
pub fn reports(targets: Vec<Box<dyn Target>>) -> (Vec<DiskStats>, Vec<TargetReport>) {
    let (mut disks, mut others) = (Vec::new(), Vec::new());
    for target in targets {
        let target: Box<dyn Any> = target;
        match target.downcast_ref::<Queue>() {
            Some(queue) => disks.push(queue.report()),
            None => others.extend(report(&*target)),
        }
    }
    (disks, others)
}
