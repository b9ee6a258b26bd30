"""Mistakes of users by area: calls, and the error messages they must get."""
