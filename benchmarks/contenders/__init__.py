"""Loaders that benchmarks/loader.py runs side by side, each in a process of its own."""
