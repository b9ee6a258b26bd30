"""Checkpoints of other libraries: finds and reads them, and maps their names."""
