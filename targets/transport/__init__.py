"""Bytes to a server and back, each read stamped on arrival: connections, TLS, headroom. Knows no API."""
