-- What each source of the hooks cost each thread of each rank: the parts of hook_cost.
-- reads: hook_costs
-- param: step_min int = -1 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: thread  main, autograd 0, another thread of the job, trace_hooks drain or agent
-- column: source  modules, collectives, statistics, writing, heartbeats, ...; tracer: steps and spans
-- column: self_ms  CPU time that it took there between the newest count of the step before step_min, else the first,
--   and the last, ms
-- column: self_ms_per_step  self / steps between, ms; NULL where no step passed
-- column: share  self / that of all sources and threads of the rank
-- empty: no rank counted twice: the run was imported, is short, or was recorded before schema 1.2
WITH recorded AS (
    SELECT rank, step, ts_ns, thread, source, cpu_ns FROM rows_of($hook_costs)
    WHERE attempt = $attempt AND step BETWEEN $step_min - 1 AND $step_max
    QUALIFY ts_ns >= coalesce(max(ts_ns) FILTER (WHERE step < $step_min) OVER (PARTITION BY rank), 0)
),
ends AS (
    SELECT rank, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns, max(step) - min(step) AS num_steps
    FROM recorded GROUP BY rank
),
spent AS (
    SELECT rank, thread, source, any_value(num_steps) AS num_steps,
        max(cpu_ns) - coalesce(min(cpu_ns) FILTER (WHERE ts_ns = first_ns), 0) AS self_ns
    FROM recorded JOIN ends USING (rank) WHERE first_ns < last_ns GROUP BY rank, thread, source
)
SELECT rank, thread, source, self_ns / 1e6 AS self_ms,
    self_ns / 1e6 / nullif(num_steps, 0) AS self_ms_per_step,
    self_ns / nullif(sum(self_ns) OVER (PARTITION BY rank), 0) AS share
FROM spent WHERE self_ns > 0 ORDER BY rank, self_ns DESC, thread, source
