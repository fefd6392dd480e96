"""Finds the commit, or the kernel, with which a condition on measured figures became true or false."""
