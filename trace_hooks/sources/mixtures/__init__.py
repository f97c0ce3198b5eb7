"""Of which source of a mixture each sample is, in the libraries that mix training data."""
