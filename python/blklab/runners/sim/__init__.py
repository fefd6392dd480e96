"""The runner `sim`: cells predicted by the simulator (crates/sim)."""
