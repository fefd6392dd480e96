"""Experiments on this machine, with the real fio."""
