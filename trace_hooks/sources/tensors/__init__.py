"""Sources that record statistics of tensors, and what else reads tensors."""
