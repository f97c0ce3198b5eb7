"""Faults in real training jobs: benchmarks/real_faults.py plans, runs, scores and prints them."""
