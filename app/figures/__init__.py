"""Charts of results: no queries."""
