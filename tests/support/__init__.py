"""Shared parts of several tests: the table of operations, and how to run a case."""
