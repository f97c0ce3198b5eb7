"""Lightweight hooks that write what a training job does to Parquet."""
