"""What fio writes, parsed: no processes, nothing of this machine."""
