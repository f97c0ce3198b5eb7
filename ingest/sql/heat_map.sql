-- One metric for every rank and step, sorted for a picture.
-- param: metric text = step_time one of step_time, compute, cpu, recompute, comm, exposed_comm,
--   data_wait, bubble, other, not_visible (ms), wait_caused, wait, transfer (ms, of any group, waits for
--   a pipeline's schedule included)
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: step  optimizer step
-- column: value_ms  the metric, ms; NULL unknown
-- empty: no step in this range has data, or the metric has another name
WITH wanted AS (
    SELECT * FROM chosen_steps($attempt) WHERE step BETWEEN $step_min AND $step_max
),
waits AS (
    SELECT attempt, rank, step,
        CASE $metric WHEN 'wait_caused' THEN sum(wait_caused_ns) WHEN 'wait' THEN sum(wait_ns)
                     WHEN 'transfer' THEN sum(transfer_ns) END AS value_ns
    FROM collective_rollup WHERE $metric IN ('wait_caused', 'wait', 'transfer')
        AND step BETWEEN $step_min AND $step_max GROUP BY attempt, rank, step
)
SELECT w.rank, w.step,
    CASE $metric WHEN 'step_time' THEN if(w.finished, w.window_ns, NULL)
        WHEN 'compute' THEN w.compute_ns WHEN 'cpu' THEN w.compute_cpu_ns
        WHEN 'recompute' THEN w.recompute_ns WHEN 'comm' THEN w.comm_ns
        WHEN 'exposed_comm' THEN w.exposed_comm_ns WHEN 'data_wait' THEN w.data_wait_ns
        WHEN 'bubble' THEN w.bubble_ns WHEN 'other' THEN w.other_ns
        WHEN 'not_visible' THEN w.window_ns - w.covered_ns
        ELSE waits.value_ns END / 1e6 AS value_ms
FROM wanted w LEFT JOIN waits USING (attempt, rank, step)
WHERE $metric IN ('step_time', 'compute', 'cpu', 'recompute', 'comm', 'exposed_comm', 'data_wait',
    'bubble', 'other', 'not_visible', 'wait_caused', 'wait', 'transfer')
ORDER BY w.rank, w.step
