"""Arrays that do not start: what their superblocks say, what to do, and what not to type. Reads only."""
