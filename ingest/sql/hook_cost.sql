-- What the hooks themselves cost each rank: their own time and the job's, from the heartbeats.
-- reads: heartbeats
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: self_ms  time spent in hooks between the newest heartbeat of the step before step_min, else the first,
--   and the last, ms
-- column: elapsed_ms  time between these heartbeats, ms
-- column: cost_ratio  self / elapsed; NULL with a single heartbeat
-- column: self_ms_per_step  self / steps between, ms; NULL where no step passed
-- column: dropped  rows dropped so far
-- column: hook_errors  errors inside hooks so far
-- column: host_files_per_s  files that its host publishes in a second, of the ranks and of the collector; NULL
--   with a single heartbeat, or recorded before schema 1.8
-- empty: no heartbeats: the run was imported or has only just begun
WITH beats AS (
    SELECT * FROM rows_of($heartbeats)
    WHERE attempt = $attempt AND step BETWEEN $step_min - 1 AND $step_max
    QUALIFY ts_ns >= coalesce(max(ts_ns) FILTER (WHERE step < $step_min) OVER (PARTITION BY rank), 0)
),
ends AS (
    SELECT rank, max(self_ns) - min(self_ns) AS self_ns, max(ts_ns) - min(ts_ns) AS elapsed_ns,
        max(step) - min(step) AS num_steps, max(dropped) AS dropped, max(hook_errors) AS hook_errors,
        max(files) - min(files) AS files, max(host_files) - min(host_files) AS host_files
    FROM beats GROUP BY rank
),
hosts AS (  -- each rank has the count of its host's collector: the longest series tells most
    SELECT host, sum(1e9 * files / nullif(elapsed_ns, 0))
            + coalesce(arg_max(1e9 * host_files / nullif(elapsed_ns, 0), elapsed_ns), 0) AS files_per_s
    FROM ends JOIN ranks USING (rank) WHERE attempt = $attempt GROUP BY host
)
SELECT rank, self_ns / 1e6 AS self_ms, elapsed_ns / 1e6 AS elapsed_ms,
    self_ns / nullif(elapsed_ns, 0) AS cost_ratio,
    self_ns / 1e6 / nullif(num_steps, 0) AS self_ms_per_step, dropped, hook_errors,
    files_per_s AS host_files_per_s
FROM ends LEFT JOIN (SELECT rank, host FROM ranks WHERE attempt = $attempt) USING (rank)
LEFT JOIN hosts USING (host) ORDER BY rank
