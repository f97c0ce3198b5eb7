-- When each step of some ranks began and ended, on the aligned clock.
-- param: ranks text required  global ranks, comma-separated
-- param: begin_ns int = -9223372036854775807 begin of the window, aligned Unix ns
-- param: end_ns int = 9223372036854775807 end of the window, aligned Unix ns
-- param: step_min int = -9223372036854775807 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  optimizer step; -1 before the first
-- column: begin_ns  end of the step before, aligned Unix ns; own clock where its offset is unknown
-- column: end_ns  end of the step
-- column: finished  whether the rank has finished it
-- column: num_spans  spans that began in it
-- column: is_summed  whether its spans were summed up where they were recorded, not published
-- empty: none of the ranks has data in this window
WITH cells AS (
    SELECT r.*, s.step IS NOT NULL AS is_summed
    FROM step_rollup r LEFT JOIN summed_steps s USING (attempt, rank, step)
    WHERE attempt = $attempt AND step BETWEEN $step_min AND $step_max
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
),
placed AS (
    SELECT c.rank, c.step, c.begin_ns, c.end_ns, c.finished, c.num_spans, c.is_summed,
        coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((c.begin_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS shift_ns
    FROM cells c ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON c.rank = o.rank AND c.begin_ns >= o.valid_from_ns
)
SELECT rank, step, begin_ns + shift_ns AS begin_ns, end_ns + shift_ns AS end_ns, finished, num_spans, is_summed
FROM placed WHERE begin_ns + shift_ns < $end_ns AND end_ns + shift_ns >= $begin_ns
ORDER BY rank, step
