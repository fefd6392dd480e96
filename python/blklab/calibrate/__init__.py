"""Models of a user's disk and host, fitted to measurements."""
