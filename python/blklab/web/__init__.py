"""Pages in the browser: the server, and the site of stored results."""
