"""Data sets and batches: GLUE, text files, features, packed loading, submissions."""
