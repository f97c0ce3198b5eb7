-- Rows of new `kind_sums` files.
INSERT OR REPLACE INTO summed_kinds
SELECT attempt, rank, step, kind, time_ns, exposed_ns, nullif(self_cpu_ns, -1), num_spans
FROM read_parquet($kind_sums, hive_partitioning = false)
QUALIFY row_number() OVER (PARTITION BY attempt, rank, step, kind ORDER BY ts_ns DESC) = 1
