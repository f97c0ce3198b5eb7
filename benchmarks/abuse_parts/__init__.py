"""Parts of benchmarks/abuse.py, one for each kind of measurement."""
