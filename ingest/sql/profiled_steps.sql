-- Steps of which a profiler's rows were recorded: a whole import of its files, or a capture of kernels.
-- param: attempt int = newest
-- column: step  optimizer step; -1 outside of all steps
-- column: num_ranks  ranks that have such rows
-- column: kernel_ms  time of kernels, sum over the ranks, ms; 0 none
-- empty: no profiler recorded anything
SELECT s.step, count(*) AS num_ranks, coalesce(sum(k.time_ns), 0) / 1e6 AS kernel_ms
FROM step_rollup s LEFT JOIN kind_rollup k
    ON k.attempt = s.attempt AND k.rank = s.rank AND k.step = s.step AND k.kind = 'kernel'
WHERE s.attempt = $attempt AND s.imported_ns > 0
GROUP BY s.step ORDER BY s.step
