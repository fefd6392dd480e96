"""Runners: what plays an experiment's cells. Each gives the same kind of result."""
