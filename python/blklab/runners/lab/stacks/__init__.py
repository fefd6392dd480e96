"""What is built in the guest: a module for each kind of stack; `build` puts them together."""
