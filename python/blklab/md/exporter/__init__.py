"""Exports md arrays to Prometheus: metrics, a cache of inventories, and an HTTP server."""
