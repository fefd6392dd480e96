"""The report on measurements: campaigns of the store beside each other."""
