//! Values as bytes: statistics that travel between processes, whole and unchanged.
//!
//! Fields follow each other without names or types; integers are LEB128 (DWARF 5, section 7.6). The user of the bytes adds
//! a version and a checksum. Restored values keep every invariant that their code relies on, or
//! [`Stored::restore`] returns `None`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;

const MOST_RESERVED: usize = 1 << 12; // Elements for which memory is reserved before they are read

/// Bytes that are not read yet.
#[derive(Clone, Debug)]
pub struct StoredBytes<'a>(pub &'a [u8]);

impl StoredBytes<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// A number of elements, each of which takes a byte or more.
    fn length(&mut self) -> Option<usize> {
        usize::restore(self).filter(|&length| length <= self.0.len())
    }
}

/// A value that can be stored as bytes.
pub trait Stored: Sized {
    /// Appends the value to `out`.
    fn store(&self, out: &mut Vec<u8>);

    /// Reads a value; `None` if the bytes are damaged.
    fn restore(input: &mut StoredBytes<'_>) -> Option<Self>;
}

/// Stores a struct field by field; `if` names a function that checks a restored value.
#[macro_export]
macro_rules! stored {
    ($type:ty { $($field:tt),* $(,)? } $(if $is_valid:expr)?) => {
        impl $crate::Stored for $type {
            fn store(&self, out: &mut Vec<u8>) {
                $($crate::Stored::store(&self.$field, out);)*
            }

            fn restore(input: &mut $crate::StoredBytes<'_>) -> Option<Self> {
                let value = Self { $($field: $crate::Stored::restore(input)?),* };
                $(
                    let is_valid: fn(&Self) -> bool = $is_valid;
                    if !is_valid(&value) {
                        return None;
                    }
                )?
                Some(value)
            }
        }
    };
}

macro_rules! stored_integers {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            #[inline]
            fn store(&self, out: &mut Vec<u8>) {
                let mut left = *self;
                while left >= 0x80 {
                    out.push(left as u8 | 0x80);
                    left >>= 7;
                }
                out.push(left as u8);
            }

            #[inline]
            fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
                let (mut value, mut shift) = (0 as $type, 0);
                loop {
                    let byte = input.byte()?;
                    let bits = <$type>::from(byte & 0x7f);
                    if shift >= <$type>::BITS || bits << shift >> shift != bits {
                        return None;
                    }
                    value |= bits << shift;
                    if byte < 0x80 {
                        return Some(value);
                    }
                    shift += 7;
                }
            }
        }
    )*};
}

stored_integers!(u16, u32, u64, u128, usize);

impl Stored for u8 {
    fn store(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        input.byte()
    }
}

impl Stored for i64 {
    fn store(&self, out: &mut Vec<u8>) {
        ((self << 1 ^ self >> 63) as u64).store(out);
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        let value = u64::restore(input)?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }
}

impl Stored for bool {
    fn store(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        input.byte().filter(|&byte| byte < 2).map(|byte| byte == 1)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn store(&self, out: &mut Vec<u8>) {
        self.is_some().store(out);
        if let Some(value) = self {
            value.store(out);
        }
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        Some(if bool::restore(input)? { Some(T::restore(input)?) } else { None })
    }
}

/// Stores a number of elements, and the elements.
fn store_all<'a, T: Stored + 'a>(all: impl ExactSizeIterator<Item = &'a T>, out: &mut Vec<u8>) {
    all.len().store(out);
    all.for_each(|value| value.store(out));
}

impl<T: Stored> Stored for Vec<T> {
    fn store(&self, out: &mut Vec<u8>) {
        store_all(self.iter(), out);
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        let length = input.length()?;
        let mut all = Vec::with_capacity(length.min(MOST_RESERVED));
        for _ in 0..length {
            all.push(T::restore(input)?);
        }
        Some(all)
    }
}

impl<T: Stored> Stored for VecDeque<T> {
    fn store(&self, out: &mut Vec<u8>) {
        store_all(self.iter(), out);
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        Vec::restore(input).map(VecDeque::from)
    }
}

impl Stored for Box<[u8]> {
    fn store(&self, out: &mut Vec<u8>) {
        store_all(self.iter(), out);
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        Vec::restore(input).map(Vec::into_boxed_slice)
    }
}

impl Stored for String {
    fn store(&self, out: &mut Vec<u8>) {
        store_all(self.as_bytes().iter(), out);
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        String::from_utf8(Vec::restore(input)?).ok()
    }
}

impl<T: Stored, const N: usize> Stored for [T; N] {
    fn store(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|value| value.store(out));
    }

    fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
        let all: Option<Vec<T>> = (0..N).map(|_| T::restore(input)).collect();
        all?.try_into().ok()
    }
}

macro_rules! stored_tuples {
    ($($(($name:ident $index:tt))*;)*) => {$(
        impl<$($name: Stored),*> Stored for ($($name,)*) {
            fn store(&self, out: &mut Vec<u8>) {
                $(self.$index.store(out);)*
            }

            fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
                Some(($($name::restore(input)?,)*))
            }
        }
    )*};
}

stored_tuples! { (A 0) (B 1); (A 0) (B 1) (C 2); }

macro_rules! stored_maps {
    ($($map:ident: $($bound:ident)*;)*) => {$(
        impl<K: Stored + Ord + Clone $(+ $bound)*, V: Stored> Stored for $map<K, V> {
            fn store(&self, out: &mut Vec<u8>) {
                self.len().store(out);
                let mut all: Vec<(&K, &V)> = self.iter().collect();
                all.sort_unstable_by_key(|(key, _)| *key);
                for (key, value) in all {
                    key.store(out);
                    value.store(out);
                }
            }

            fn restore(input: &mut StoredBytes<'_>) -> Option<Self> {
                let length = input.length()?;
                let all: Self = (0..length).map(|_| Some((K::restore(input)?, V::restore(input)?))).collect::<Option<_>>()?;
                (all.len() == length).then_some(all)
            }
        }
    )*};
}

stored_maps! { HashMap: Hash Eq; BTreeMap: ; }

#[cfg(test)]
mod tests;
