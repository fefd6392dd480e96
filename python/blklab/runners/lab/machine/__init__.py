"""The virtual machine that the lab's guest runs in."""
