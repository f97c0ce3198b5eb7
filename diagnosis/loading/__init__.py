"""Data loaders: what their workers did, and why they do not deliver in time."""
