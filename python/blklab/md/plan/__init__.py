"""Says before a change of an array whether mdadm and the kernel accept it, how long it takes, and what can go wrong."""
