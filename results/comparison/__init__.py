"""Comparison: two or more sides, each a set of runs, on the same schedules, with a decision that can be defended."""
