"""Ways out of a run: the same rows as a trace for Perfetto, as Parquet, as CSV, in flat memory."""
