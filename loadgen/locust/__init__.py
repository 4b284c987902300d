"""Locust as control plane: its UI, its master and its workers around our schedules, players and records.

The gevent processes only relay. The master has a conductor beside it, a plain process that does what `tokenload
run` does; each worker has a player beside it, the same that `tokenload run` starts. Nothing is measured in between.
"""
