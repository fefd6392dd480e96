# Sourced by the other scripts: puts a fit Rust toolchain first on PATH, if there is one.
# shellcheck shell=bash

have() { command -v "$1" >/dev/null 2>&1; }

# at_least FOUND NEEDED: compares dotted versions
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

rust_needed=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml)

rust_is_fit() {
    local tool found
    for tool in cargo rustc; do
        found=$("$tool" --version 2>/dev/null | awk '{print $2; exit}') || return 1
        [ -n "$found" ] && at_least "$found" "$rust_needed" || return 1
    done
}

# The user's own choice first, then rustup's home (often not on PATH), then Debian's packages.
find_rust() {
    local directory original=$PATH
    for directory in "" "${CARGO_HOME:-${HOME:-}/.cargo}/bin" /usr/bin; do
        PATH=${directory:+$directory:}$original
        hash -r
        if rust_is_fit; then
            return 0
        fi
    done
    PATH=$original
    hash -r
    return 1
}
