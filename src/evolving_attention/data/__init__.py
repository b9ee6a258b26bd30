"""Data sets and batches: GLUE, files of text, features, packed loading, submissions."""
