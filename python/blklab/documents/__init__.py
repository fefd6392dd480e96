"""What crosses between Rust and Python, as typed dictionaries; `make types` writes them."""
