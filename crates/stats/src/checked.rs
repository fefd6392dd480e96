//! Statistics that travel between processes, by serde. Restored values keep every invariant that their code relies on,
//! or are refused.

/// Refuses a restored struct that a function says is not valid. The struct has `#[serde(remote = "Self")]`.
#[macro_export]
macro_rules! checked {
    ($type:ident $(<$parameter:ident>)?, $is_valid:expr) => {
        impl $(<$parameter: serde::Serialize>)? serde::Serialize for $type $(<$parameter>)? {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, to)
            }
        }

        impl<'de $(, $parameter: serde::Deserialize<'de>)?> serde::Deserialize<'de> for $type $(<$parameter>)? {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let is_valid: fn(&Self) -> bool = $is_valid;
                let found = Self::deserialize(from)?;
                is_valid(&found).then_some(found).ok_or_else(|| serde::de::Error::custom(stringify!($type)))
            }
        }
    };
}
