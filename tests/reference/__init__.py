"""Equations of the papers, transcribed to NumPy float64: the oracles of the tests."""
