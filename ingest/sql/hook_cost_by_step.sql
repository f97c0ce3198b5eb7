-- What the hooks cost while each step ran: their own time and the job's, between heartbeats.
-- reads: heartbeats
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: step  optimizer step of the later heartbeat
-- column: cost_ratio  own time of the hooks / time between the heartbeats, over all ranks
-- column: num_beats  heartbeats that were compared with the one before
-- column: since_step  step of the earliest of those before
-- empty: no rank sent two heartbeats: the run was imported or has only just begun
WITH beats AS (
    SELECT step, self_ns - lag(self_ns) OVER before AS self_ns,
        ts_ns - lag(ts_ns) OVER before AS elapsed_ns, lag(step) OVER before AS since_step
    FROM rows_of($heartbeats)
    WHERE attempt = $attempt AND step BETWEEN $step_min - 1 AND $step_max
    WINDOW before AS (PARTITION BY rank ORDER BY ts_ns)
)
SELECT step, sum(self_ns) / sum(elapsed_ns) AS cost_ratio, count(*) AS num_beats,
    min(since_step) AS since_step
FROM beats WHERE elapsed_ns > 0 AND step >= greatest($step_min, 0) GROUP BY step ORDER BY step
