-- The work of every rank in every finished step, by which ranks are compared with their peers.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: pp int = null ranks of this pipeline stage only
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step
-- column: step_ms  end of the step - end of the previous one, ms
-- column: compute_ms  union of forward, backward, wgrad and optimizer (or of kernels), ms
-- column: cpu_ms  CPU time of compute, ms; NULL where not recorded
-- column: forward_ms  forwards alone, wall ms; NULL where not recorded
-- column: forward_cpu_ms  CPU time of the same, ms; NULL where not recorded
-- column: wait_caused_ms  what it made others wait in groups within one pipeline stage, rank-ms; NULL
--   without aligned clocks
-- column: wait_ms  what it waited there itself, ms; NULL without aligned clocks
-- empty: no step in this range is finished
WITH waits AS (
    SELECT rank, step, sum(wait_caused_ns) AS caused_ns, sum(wait_ns) AS wait_ns
    FROM collectives_of($attempt, NULL) WHERE step BETWEEN $step_min AND $step_max
    GROUP BY rank, step
),
forwards AS (
    SELECT rank, step, sum(time_ns) AS time_ns, sum(self_cpu_ns) AS cpu_ns
    FROM chosen_kinds($attempt)
    WHERE step BETWEEN $step_min AND $step_max AND kind = 'forward' GROUP BY rank, step
)
SELECT s.rank, s.step, window_ns / 1e6 AS step_ms, compute_ns / 1e6 AS compute_ms,
    nullif(compute_cpu_ns, 0) / 1e6 AS cpu_ms,
    nullif(f.time_ns, 0) / 1e6 AS forward_ms,
    if(f.cpu_ns > 0, f.cpu_ns / 1e6, NULL) AS forward_cpu_ms, caused_ns / 1e6 AS wait_caused_ms,
    w.wait_ns / 1e6 AS wait_ms
FROM chosen_steps($attempt) s LEFT JOIN waits w USING (rank, step)
    LEFT JOIN forwards f USING (rank, step)
WHERE finished AND s.step >= 0 AND s.step BETWEEN $step_min AND $step_max
    AND ($pp IS NULL OR s.rank IN (SELECT rank FROM ranks WHERE attempt = $attempt AND pp = $pp))
ORDER BY s.rank, s.step
