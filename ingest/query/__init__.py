"""Questions to an indexed run: DuckDB connections, the manifest of its files, saved SQL."""
