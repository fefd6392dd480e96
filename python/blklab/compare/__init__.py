"""What differs between runs, and whether that can be chance."""
