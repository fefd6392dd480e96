"""The native core, built from crates/py: thin conversions over the Rust crates."""

VERSION: str
"""blklab's version, as Cargo.toml states it."""

DEBUG_BUILD: bool
"""True if the extension was built without optimisation; do not believe its speed."""
