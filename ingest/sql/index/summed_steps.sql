-- Rows of new `step_sums` files.
INSERT OR REPLACE INTO summed_steps
SELECT attempt, rank, step, compute_ns, recompute_ns, comm_ns, exposed_comm_ns, data_wait_ns,
    data_fetch_ns, other_ns, covered_ns, eager_ns, compiled_ns, graphed_ns, imported_ns,
    nullif(compute_cpu_ns, -1), num_spans
FROM read_parquet($step_sums, hive_partitioning = false)
QUALIFY row_number() OVER (PARTITION BY attempt, rank, step ORDER BY ts_ns DESC) = 1
