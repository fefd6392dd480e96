"""md arrays for Prometheus: what is exported, when disks are read for it, and how it is served."""
