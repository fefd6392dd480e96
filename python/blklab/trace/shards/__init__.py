"""Characterise traces that do not fit one machine: many shards, merged as a tree."""
