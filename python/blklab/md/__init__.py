"""Reads and audits md arrays. Only `repair` changes arrays."""
