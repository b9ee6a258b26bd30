"""Checkpoints of other libraries: finding, reading, and mapping of names."""
