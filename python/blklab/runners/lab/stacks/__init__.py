"""Builds stacks in the guest: a module for each kind of stack; `build` combines them."""
