-- When the process of a rank was seen stopped: by SIGSTOP, a debugger, a tracer (state T or t in /proc).
-- reads: host_metrics
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs
-- column: step  optimizer step it was in
-- column: second  when, Unix s on the host's clock
-- column: held_s  until the next look at it, s; NULL the last look
-- empty: no process was seen stopped, or nobody looked
WITH looks AS (
    SELECT rank, host, step, value, ts_ns / 1e9 AS second,
        (lead(ts_ns) OVER (PARTITION BY rank ORDER BY ts_ns) - ts_ns) / 1e9 AS held_s
    FROM rows_of($host_metrics) WHERE attempt = $attempt AND metric = 'process_stopped' AND isfinite(value)
)
SELECT rank, host, step, second, held_s FROM looks
WHERE value > 0 AND step BETWEEN $step_min AND $step_max ORDER BY rank, second
