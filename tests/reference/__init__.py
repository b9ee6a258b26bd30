"""Reference implementations of the papers' equations in NumPy float64."""
