//! The registry of the policies of dm-cache.

use crate::policy::{Geometry, Policy};
use crate::smq::{Smq, SmqKernel};

/// Makes an empty cache of a policy.
pub type PolicyBuilder = fn(Geometry, SmqKernel) -> Box<dyn Policy>;

/// The policy with this name, as in the kernel.
pub fn find_policy(name: &str) -> Option<PolicyBuilder> {
    match name {
        "smq" => Some(|geometry, kernel| Box::new(Smq::new(geometry, kernel))), // since Linux 4.6
        // It only writes dirty blocks back.
        "cleaner" => Some(|geometry, kernel| Box::new(Smq::new_cleaner(geometry, kernel))),
        _ => None,
    }
}
