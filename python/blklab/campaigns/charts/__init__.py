"""The charts of the report on campaigns, with their tables."""
