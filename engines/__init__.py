"""Slots, batching policies and executors. Reads no clock, opens no socket."""
