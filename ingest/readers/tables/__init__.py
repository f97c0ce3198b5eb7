"""What readers of several formats share to make rows: spans, nesting, groups, ranks."""
