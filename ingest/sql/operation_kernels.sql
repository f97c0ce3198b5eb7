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
-- column: median_us  of one, us
-- column: low_us  first decile, us
-- column: high_us  ninth decile, us
-- column: num_steps  steps in which this rank has any kernel or operation of the query; at least 1
-- empty: neither kernels nor shapes of operations were recorded in these steps
WITH recorded AS (
    SELECT rank, step, name, args, greatest(dur_ns, 0) AS dur_ns
    FROM spans_of($spans)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
        AND step IN (SELECT step FROM step_rollup WHERE attempt = $attempt AND imported_ns > 0)
        AND (kind = 'kernel' OR starts_with(args, '{"op":'))
), newest AS (SELECT DISTINCT step FROM recorded ORDER BY step DESC LIMIT 200),
chosen AS (
    SELECT *, count(DISTINCT step) OVER (PARTITION BY rank) AS num_steps FROM recorded
    WHERE step IN (FROM newest)
        AND rank IN (SELECT DISTINCT rank FROM recorded ORDER BY rank LIMIT 64)
)
SELECT rank, CASE WHEN starts_with(args, '{"op":') THEN regexp_replace(args, ',"kernel":\d+}$', '}') END
        AS operation,
    CASE WHEN operation IS NULL THEN 0
        ELSE coalesce(try_cast(regexp_extract(args, ',"kernel":(\d+)}$', 1) AS INT), 0) END AS part,
    CASE WHEN operation IS NULL THEN '' ELSE name END AS name,
    count(*) AS calls, sum(dur_ns)::DOUBLE / 1e6 AS total_ms, quantile_cont(dur_ns, 0.5) / 1e3 AS median_us,
    quantile_cont(dur_ns, 0.1) / 1e3 AS low_us, quantile_cont(dur_ns, 0.9) / 1e3 AS high_us,
    max(num_steps) AS num_steps
FROM chosen GROUP BY ALL ORDER BY rank, operation, part, name
