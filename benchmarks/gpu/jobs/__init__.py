"""Jobs that the parts run in separate processes."""
