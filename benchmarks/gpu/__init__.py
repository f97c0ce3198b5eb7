"""What only a CUDA device can show of the hooks: `make gpu`, docs/gpu.md."""
