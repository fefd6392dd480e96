"""The real fio, driven: job files, laying out, steady state, one cell measured."""
