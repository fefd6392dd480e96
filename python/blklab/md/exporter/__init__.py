"""Exports md arrays to Prometheus."""
