"""The report on campaigns of the store."""
