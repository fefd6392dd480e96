"""Runners: what runs an experiment's cells. All return the same kind of result."""
