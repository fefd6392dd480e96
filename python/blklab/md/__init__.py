"""md arrays: what there is, and what is wrong or risky with it. Nothing here changes an array."""
