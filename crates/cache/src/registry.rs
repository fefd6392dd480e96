//! The registry of the policies of dm-cache.

use crate::policy::{Geometry, Policy};
use crate::smq::{Smq, SmqKernel};

/// A policy that maps blocks.
#[derive(Debug)]
pub struct PolicySpec {
    pub name: &'static str,                                // its name, as in the kernel
    pub build: fn(Geometry, SmqKernel) -> Box<dyn Policy>, // makes an empty cache
}

/// All of them.
pub static POLICIES: &[PolicySpec] = &[
    // Since Linux 4.6.
    PolicySpec { name: "smq", build: |geometry, kernel| Box::new(Smq::new(geometry, kernel)) },
    // It only writes dirty blocks back.
    PolicySpec { name: "cleaner", build: |geometry, kernel| Box::new(Smq::new_cleaner(geometry, kernel)) },
];

/// The policy with this name.
pub fn find_policy(name: &str) -> Option<&'static PolicySpec> {
    POLICIES.iter().find(|policy| policy.name == name)
}
