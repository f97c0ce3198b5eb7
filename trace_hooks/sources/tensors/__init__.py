"""Sources that record statistics of tensors, and helpers of all sources that read tensors."""
