//! UUIDs as mdadm prints them.

use std::fmt;

use serde::{Serialize, Serializer};

/// 16 bytes; printed as `3156a3e6:4a433ea3:f425167f:2e6739fd`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, crate::JsonSchema)]
#[schemars(with = "String")]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if at > 0 && at % 4 == 0 {
                f.write_str(":")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
