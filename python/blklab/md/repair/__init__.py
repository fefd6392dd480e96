"""Removes bad-block lists from running arrays, one member at a time.

`steps` computes the next step from the state of the array and the journal. `perform` executes
it and reads the state again. A repair that resumes after a crash uses the same code.
"""
