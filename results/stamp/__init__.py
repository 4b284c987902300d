"""The stamp's parts: readers of machine and software, each given where to look, and the gate that all pass through.

Knows the conditions of a run; knows nothing of its requests. Imports nothing but the standard library.
"""
