"""Faults of data loaders in real jobs: `python -m benchmarks.loaders`."""
