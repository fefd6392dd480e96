"""How good predictions are: published measurements and the lab beside the simulator."""
