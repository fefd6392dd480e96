"""The runner `fleet`: real fio on many hosts at the same time."""
