"""Schedules, clocks, drivers and the command line: the floor that holds the stopwatch."""
