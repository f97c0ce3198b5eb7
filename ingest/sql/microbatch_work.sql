-- Forward and backward of each micro-batch on the first rank of each replica (64 of them at most), in
-- the newest 100 of the steps, with the tokens and sequence lengths of the rank's batch: whether
-- work is uneven.
-- reads: spans, data_batches
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step
-- column: microbatch  micro-batch; -1 the whole step, where they are not known
-- column: chunk  virtual stage; -1 none
-- column: forward_ms  outermost forwards, without repeated ones, wall ms; NULL none
-- column: backward_ms  outermost backwards and gradients of weights, wall ms; NULL none
-- column: forward_cpu_ms  CPU time of the same, ms; NULL unknown
-- column: backward_cpu_ms  CPU time of the same, ms; NULL unknown
-- column: tokens  tokens of the rank's step, all its micro-batches together; NULL unknown
-- column: sum_sq_len  sum of squared sequence lengths of the same; NULL unknown
-- empty: none of these ranks recorded forwards or backwards in these steps
WITH chosen AS (
    SELECT min(rank) AS rank FROM ranks WHERE attempt = $attempt
    GROUP BY coalesce(dp, -1 - rank) ORDER BY 1 LIMIT 64
),
newest AS (
    FROM whole_steps($attempt, $step_min, $step_max)
    ORDER BY step DESC LIMIT 100
),
nested AS (
    SELECT rank, step, microbatch, chunk, kind = 'forward' AS is_forward, depth,
        sum(greatest(dur_ns, 0)) / 1e6 AS ms,
        if(min(cpu_ns) < 0, NULL, sum(cpu_ns) / 1e6) AS cpu_ms
    FROM whole_spans_of($spans)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
        AND step IN (SELECT step FROM newest) AND rank IN (SELECT rank FROM chosen)
        AND kind IN ('forward', 'backward', 'wgrad') AND NOT recompute
    GROUP BY ALL
),
outermost AS (
    SELECT * FROM nested
    QUALIFY depth = min(depth) OVER (PARTITION BY rank, step, microbatch, chunk, is_forward)
),
lengths AS (
    SELECT rank, step, sum(tokens) FILTER (tokens >= 0) AS tokens,
        sum(sum_sq_len) FILTER (sum_sq_len >= 0) AS sum_sq_len
    FROM rows_of($data_batches)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max GROUP BY rank, step
)
SELECT rank, step, microbatch, chunk, sum(ms) FILTER (is_forward) AS forward_ms,
    sum(ms) FILTER (NOT is_forward) AS backward_ms,
    sum(cpu_ms) FILTER (is_forward) AS forward_cpu_ms,
    sum(cpu_ms) FILTER (NOT is_forward) AS backward_cpu_ms,
    CAST(any_value(tokens) AS DOUBLE) AS tokens, CAST(any_value(sum_sq_len) AS DOUBLE) AS sum_sq_len
FROM outermost LEFT JOIN lengths USING (rank, step)
GROUP BY rank, step, microbatch, chunk ORDER BY rank, step, microbatch, chunk
