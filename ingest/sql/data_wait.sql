-- How long ranks were blocked on their next batch, and what the loaders did meanwhile; worst first.
-- Blocked time: waiting for a loader's worker, and fetching that neither compute nor communication
-- hides.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: top int = 100 how many ranks
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: data_wait_ms  mean time of a step blocked on data, ms
-- column: worst_ms  longest in one step, ms
-- column: worst_step  that step
-- column: wait_ratio  share of the step windows
-- column: data_fetch_ms  mean time of the loader's own work, may be hidden, ms
-- empty: no step in this range has data
SELECT rank, avg(data_wait_ns) / 1e6 AS data_wait_ms, max(data_wait_ns) / 1e6 AS worst_ms,
    arg_max(step, data_wait_ns) AS worst_step,
    sum(data_wait_ns) / greatest(sum(window_ns), 1) AS wait_ratio,
    avg(data_fetch_ns) / 1e6 AS data_fetch_ms
FROM chosen_steps($attempt) WHERE step BETWEEN $step_min AND $step_max AND step >= 0
GROUP BY rank ORDER BY data_wait_ms DESC, rank LIMIT $top
