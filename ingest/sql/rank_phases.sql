-- What every rank did in every finished step, by phase: it explains why a rank arrives late.
-- Steps whose length is not recorded are left out.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: pp int = null ranks of this pipeline stage only
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step
-- column: step_ms  end of the step - end of the previous one, ms
-- column: compute_ms  union of forward, backward, wgrad and optimizer (or of kernels), ms
-- column: cpu_ms  CPU time of compute, ms; NULL where not recorded
-- column: comm_ms  communication that compute does not hide, ms
-- column: data_ms  blocked on the next batch, ms
-- column: covered_ms  union of all that was recorded, ms
-- column: gc_ms  garbage collections, ms
-- column: checkpoint_ms  saving that compute does not hide, ms
-- column: host_ms  other named work of the host, ms
-- column: forward_idle_ms  wall time of forward beyond its CPU time, ms; NULL where the job computes
--   on devices or CPU time was not recorded
-- column: backward_idle_ms  the same of backward and wgrad, ms
-- empty: no step in this range is finished
WITH kinds AS (
    SELECT rank, step, sum(time_ns) FILTER (WHERE kind = 'gc') AS gc_ns,
        sum(exposed_ns) FILTER (WHERE kind = 'checkpoint') AS checkpoint_ns,
        sum(exposed_ns) FILTER (WHERE kind = 'host') AS host_ns,
        sum(time_ns - self_cpu_ns) FILTER (WHERE kind = 'forward' AND self_cpu_ns > 0) AS forward_ns,
        sum(time_ns - self_cpu_ns) FILTER (WHERE kind IN ('backward', 'wgrad') AND self_cpu_ns > 0)
            AS backward_ns
    FROM chosen_kinds($attempt)
    WHERE step BETWEEN $step_min AND $step_max AND (kind IN ('gc', 'checkpoint', 'host')
        OR kind IN ('forward', 'backward', 'wgrad') AND rank IN (
            SELECT rank FROM ranks WHERE attempt = $attempt AND starts_with(device, 'cpu')))
    GROUP BY rank, step
)
SELECT s.rank, s.step, window_ns / 1e6 AS step_ms, compute_ns / 1e6 AS compute_ms,
    if(compute_cpu_ns > 0, compute_cpu_ns / 1e6, NULL) AS cpu_ms,
    exposed_comm_ns / 1e6 AS comm_ms, data_wait_ns / 1e6 AS data_ms, covered_ns / 1e6 AS covered_ms,
    coalesce(gc_ns, 0) / 1e6 AS gc_ms, coalesce(checkpoint_ns, 0) / 1e6 AS checkpoint_ms,
    coalesce(host_ns, 0) / 1e6 AS host_ms, forward_ns / 1e6 AS forward_idle_ms,
    backward_ns / 1e6 AS backward_idle_ms
FROM chosen_steps($attempt) s LEFT JOIN kinds k USING (rank, step)
WHERE finished AND window_ns > 0 AND s.step >= 0 AND s.step BETWEEN $step_min AND $step_max
    AND ($pp IS NULL OR s.rank IN (SELECT rank FROM ranks WHERE attempt = $attempt AND pp = $pp))
ORDER BY s.rank, s.step
