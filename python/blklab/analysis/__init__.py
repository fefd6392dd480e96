"""Analyses of results: calibration, comparison, explanation, diagnostics."""
