"""Measurements of the hooks that need a CUDA device: `make gpu`, docs/gpu.md."""
