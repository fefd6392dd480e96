"""SMART values of disks, read with smartctl."""
