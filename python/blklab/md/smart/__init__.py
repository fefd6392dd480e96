"""SMART: what disks say of themselves, through smartctl."""
