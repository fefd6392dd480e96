"""Takes bad-block lists away from running arrays, one member at a time.

`decide` looks at what is there and says the next step; `perform` does it and looks again. Nothing
is believed but what is seen, so that going on after a crash (`--resume`) is the same as going on.
"""
