"""The DuckDB index of a run: following new files, rollups, compaction, retention, snapshots."""
