"""TOML files of users: kinds of values, reading, and errors with their place."""
