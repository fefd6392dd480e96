"""Advice: searches the arrangements of some disks for the one that suits a load."""
