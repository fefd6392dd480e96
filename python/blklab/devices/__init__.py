"""Models of disks: the library, the parameters of the simulator, and the disks of this host."""
