-- When steps began and ended on the aligned clock, as seen by the first rank that has each.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: step  optimizer step
-- column: begin_ns  aligned Unix ns; on the rank's own clock where its offset is unknown
-- column: end_ns  the same
-- empty: no step in this range has data
WITH clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets WHERE attempt = $attempt GROUP BY rank
)
SELECT step, arg_min(begin_ns + coalesce(offset_ns, 0), rank) AS begin_ns, arg_min(end_ns + coalesce(offset_ns, 0), rank) AS end_ns
FROM step_rollup LEFT JOIN clocks USING (rank)
WHERE attempt = $attempt AND step BETWEEN greatest($step_min, 0) AND $step_max
GROUP BY step ORDER BY step
