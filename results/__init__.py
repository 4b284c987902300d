"""The ledger: schedules, recordings, metrics, slot accounting and storage.

Knows what was asked and what happened; knows nothing of engines, targets or load.
"""
