"""Mistakes of users, room by room: what they do, and what they must be told."""
