"""The other side of each comparison, written as efficiently as we can."""
