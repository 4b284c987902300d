"""Recorded traces: one file a format, their catalogue, and the replay that makes a schedule of one."""
