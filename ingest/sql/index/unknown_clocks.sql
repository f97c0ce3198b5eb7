-- Ranks whose clock new `clocks` files record as unknown (method none).
INSERT OR IGNORE INTO unknown_clocks
SELECT DISTINCT attempt, rank FROM read_parquet($clocks, hive_partitioning = false) WHERE method = 'none'
