"""The other side of each comparison, written as well as we can."""
