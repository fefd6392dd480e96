"""Results that others measured, as runs of the store: one module a format, and a registry."""
