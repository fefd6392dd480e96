"""A web page over the store, which only reads it."""
