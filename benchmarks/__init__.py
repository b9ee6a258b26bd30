"""Benchmarks: this package against PyTorch and transformers, in one interleaved run."""
