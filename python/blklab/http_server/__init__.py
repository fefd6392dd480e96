"""An HTTP server with TLS and users, for metrics and for the web page."""
