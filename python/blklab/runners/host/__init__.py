"""The runner `host`: real fio on this machine's devices."""
