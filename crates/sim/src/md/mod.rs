//! md: how an array's sectors lie on its members, which member serves a read, and what a write costs.

pub mod map;
pub mod parity;
