"""Slow starts planted in real jobs: `python -m benchmarks.startups`."""
