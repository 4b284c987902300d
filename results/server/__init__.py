"""The server's side: what a server told of itself while it was under load, and what follows from it.

Knows the names that servers use and the arithmetic; opens no socket.
"""
