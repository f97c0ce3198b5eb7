-- Kernels of some steps by the operation that launched them, as far as a profiler recorded the shapes of
-- its inputs (torch.profiler with record_shapes=True). Profiles without kernels show the operations
-- themselves. At most the newest 200 steps that have any, and the first 64 ranks that have any.
-- reads: spans
-- param: step_min int = -1 first step wanted; -1: what lies outside of all steps, too
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: operation  its name and the shapes of its inputs, as JSON; NULL not recorded
-- column: part  number of the kernel among those of one call, from 0; 0 where operation is NULL
-- column: name  of the kernel; empty where operation is NULL: all such kernels together
-- column: calls  how many there were
-- column: total_ms  wall time of all of them, ms
-- column: alone_calls  of them without communication of the rank at the same time, which slows them
-- column: median_us  of one of these, us; NULL where there is none
-- column: low_us  first decile of these, us; NULL likewise
-- column: high_us  ninth decile of these, us; NULL likewise
-- column: num_steps  steps in which this rank has any kernel or operation of the query; at least 1
-- empty: neither kernels nor shapes of operations were recorded in these steps
WITH near AS (
    SELECT rank, step, kind, name, args, ts_ns, greatest(dur_ns, 0) AS dur_ns
    FROM spans_of($spans)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
        AND step IN (SELECT step FROM step_rollup WHERE attempt = $attempt AND imported_ns > 0)
        AND (kind = 'kernel' OR ends_with(kind, '_comm') OR starts_with(args, '{"op":'))
), recorded AS (SELECT * FROM near WHERE NOT ends_with(kind, '_comm')
), newest AS (SELECT DISTINCT step FROM recorded ORDER BY step DESC LIMIT 200),
chosen AS (
    SELECT *, count(DISTINCT step) OVER (PARTITION BY rank) AS num_steps FROM recorded
    WHERE step IN (FROM newest)
        AND rank IN (SELECT DISTINCT rank FROM recorded ORDER BY rank LIMIT 64)
), communication AS (
    SELECT rank, ts_ns, max(ts_ns + dur_ns) OVER (PARTITION BY rank ORDER BY ts_ns) AS until_ns
    FROM near WHERE ends_with(kind, '_comm')
), kernels AS (
    SELECT c.*, coalesce(m.until_ns, c.ts_ns) <= c.ts_ns AS alone
    FROM chosen c ASOF LEFT JOIN communication m ON c.rank = m.rank AND c.ts_ns + c.dur_ns > m.ts_ns
)
SELECT rank, CASE WHEN starts_with(args, '{"op":') THEN regexp_replace(args, ',"kernel":\d+}$', '}') END
        AS operation,
    CASE WHEN operation IS NULL THEN 0
        ELSE coalesce(try_cast(regexp_extract(args, ',"kernel":(\d+)}$', 1) AS INT), 0) END AS part,
    CASE WHEN operation IS NULL THEN '' ELSE name END AS name,
    count(*) AS calls, sum(dur_ns)::DOUBLE / 1e6 AS total_ms,
    count(*) FILTER (WHERE alone) AS alone_calls,
    quantile_cont(dur_ns, 0.5) FILTER (WHERE alone) / 1e3 AS median_us,
    quantile_cont(dur_ns, 0.1) FILTER (WHERE alone) / 1e3 AS low_us,
    quantile_cont(dur_ns, 0.9) FILTER (WHERE alone) / 1e3 AS high_us,
    max(num_steps) AS num_steps
FROM kernels GROUP BY ALL ORDER BY rank, operation, part, name
