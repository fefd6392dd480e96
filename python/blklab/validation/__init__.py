"""Validation of predictions against published measurements and the lab."""
