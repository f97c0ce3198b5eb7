"""Sources that take kernels from torch's profiler for some steps."""
