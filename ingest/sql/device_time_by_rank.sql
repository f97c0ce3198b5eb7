-- What the time of each rank went to: the mean over its steps, in the parts of device_time, and what
-- it made others wait.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: pp  pipeline stage; NULL unknown
-- column: step_ms  mean window, ms
-- column: compute_ms  compute without the next two, ms
-- column: recompute_ms  forwards computed again for a backward, ms
-- column: core_wait_ms  compute on CPU beyond its CPU time, ms; 0 on other devices
-- column: moving_tp_ms  tensor-parallel communication not hidden by compute, without waiting, ms
-- column: moving_pp_ms  of the pipeline, ms
-- column: moving_dp_ms  of the data-parallel axes, ms
-- column: moving_ep_ms  of the expert axis, ms
-- column: moving_other_ms  of other groups, ms
-- column: pipeline_ms  bubble: idle in groups that cross pipeline stages, by the schedule or for a late
--   stage, ms
-- column: waiting_ms  waiting for the others in groups within one stage, ms
-- column: data_ms  blocked on the next batch, ms
-- column: gc_ms  garbage collections, ms
-- column: host_ms  other host work: launches, host code, copies, ms
-- column: checkpoint_ms  saving, ms
-- column: unseen_ms  nothing was recorded, ms
-- column: wait_caused_ms  what it made others wait in groups within one pipeline stage, rank-ms per
--   step; NULL without aligned clocks
-- column: num_steps  steps averaged
-- empty: no step in this range is finished
WITH caused AS (
    SELECT rank, sum(wait_caused_ns) AS caused_ns FROM collectives_of($attempt, NULL)
    WHERE step BETWEEN $step_min AND $step_max AND step >= 0 GROUP BY rank
)
SELECT p.rank, any_value(r.pp) AS pp, avg(window_ns) / 1e6 AS step_ms,
    avg(compute_ns) / 1e6 AS compute_ms, avg(recompute_ns) / 1e6 AS recompute_ms,
    avg(core_wait_ns) / 1e6 AS core_wait_ms, avg(moving_tp_ns) / 1e6 AS moving_tp_ms,
    avg(moving_pp_ns) / 1e6 AS moving_pp_ms, avg(moving_dp_ns) / 1e6 AS moving_dp_ms,
    avg(moving_ep_ns) / 1e6 AS moving_ep_ms, avg(moving_other_ns) / 1e6 AS moving_other_ms,
    avg(pipeline_ns) / 1e6 AS pipeline_ms, avg(waiting_ns) / 1e6 AS waiting_ms,
    avg(data_ns) / 1e6 AS data_ms, avg(gc_ns) / 1e6 AS gc_ms, avg(host_ns) / 1e6 AS host_ms,
    avg(checkpoint_ns) / 1e6 AS checkpoint_ms, avg(unseen_ns) / 1e6 AS unseen_ms,
    any_value(caused_ns) / count(*) / 1e6 AS wait_caused_ms, count(*) AS num_steps
FROM time_parts($attempt, $step_min, $step_max) p LEFT JOIN ranks r USING (attempt, rank)
    LEFT JOIN caused c ON c.rank = p.rank
GROUP BY p.rank ORDER BY p.rank
