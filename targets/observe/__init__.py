"""Asking a server about itself while it is under load, from a process of its own: parsing disturbs no stamp."""
