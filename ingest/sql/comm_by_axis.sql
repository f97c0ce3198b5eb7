-- Communication by parallel axis, mean per rank and step: how long it takes,
-- and how much of it compute does not hide.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: rank int = null one rank only
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: axis  tp, pp, dp, ep or other
-- column: comm_ms  union of the axis' communication spans per rank and step, ms
-- column: exposed_comm_ms  the part of it without compute on any track of the rank, ms
-- column: exposed_ratio  exposed / communication
-- column: num_spans  communication spans in all
-- empty: no communication was recorded in these steps
WITH cells AS (
    SELECT count(*) AS num FROM chosen_steps($attempt)
    WHERE step BETWEEN $step_min AND $step_max AND ($rank IS NULL OR rank = $rank)
)
SELECT replace(kind, '_comm', '') AS axis, sum(time_ns) / max(num) / 1e6 AS comm_ms,
    sum(exposed_ns) / max(num) / 1e6 AS exposed_comm_ms,
    sum(exposed_ns) / greatest(sum(time_ns), 1) AS exposed_ratio,
    CAST(sum(num_spans) AS BIGINT) AS num_spans
FROM chosen_kinds($attempt), cells
WHERE ends_with(kind, '_comm') AND step BETWEEN $step_min AND $step_max
    AND ($rank IS NULL OR rank = $rank)
GROUP BY kind ORDER BY comm_ms DESC
