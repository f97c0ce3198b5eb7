-- Evaluations in new `spans` files.
INSERT OR REPLACE INTO evaluations
SELECT attempt, rank, ts_ns, max(ts_ns + dur_ns), max(step)
FROM read_parquet($spans, hive_partitioning = false)
WHERE kind = 'evaluation' AND dur_ns > 0 GROUP BY attempt, rank, ts_ns
