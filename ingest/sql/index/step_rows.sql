-- Rows of new `steps` files; a step recorded twice counts as recorded last. Files of
-- older minors lack columns: union_by_name.
INSERT OR REPLACE INTO step_rows
SELECT attempt, rank, step, start_ns, dur_ns, loss, grad_norm, tokens, flops, lr
FROM read_parquet($steps, hive_partitioning = false, union_by_name = true)
QUALIFY row_number() OVER (PARTITION BY attempt, rank, step ORDER BY start_ns DESC) = 1
