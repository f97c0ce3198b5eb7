-- Share of each step that ranks wait for late ones: wait_caused summed over ranks / (ranks x step
-- time). By how much steps are longer is another question: what a finding costs answers it. By
-- default only groups within one pipeline stage count: waits across stages are partly due to the
-- schedule, and a healthy pipeline would seem to lose time. So time that stages lose by waiting for a
-- late stage is missing.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: axis text = null only groups of this axis (tp, pp, dp, ...), or `all`; default: within stages
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: wait_caused_ms  over all ranks, rank-ms; NULL without aligned collectives
-- column: lost_ratio  share of the step's time, 0 to 1; NULL unknown
-- column: worst_rank  rank that caused most of it; NULL none
-- column: num_ranks  ranks that finished the step
-- empty: no step in this range is finished
WITH steps AS (
    SELECT step, attempt, sum(window_ns) AS total_ns, count(*) AS num_ranks
    FROM chosen_steps($attempt)
    WHERE finished AND step BETWEEN $step_min AND $step_max GROUP BY step, attempt
),
by_rank AS (
    SELECT step, attempt, rank, sum(wait_caused_ns) AS caused_ns
    FROM collectives_of($attempt, $axis) GROUP BY step, attempt, rank
),
caused AS (
    SELECT step, attempt, sum(caused_ns) AS caused_ns,
        arg_max(rank, caused_ns) FILTER (WHERE caused_ns > 0) AS worst_rank
    FROM by_rank GROUP BY step, attempt
)
SELECT step, caused_ns / 1e6 AS wait_caused_ms, caused_ns / total_ns AS lost_ratio, worst_rank,
    num_ranks
FROM steps LEFT JOIN caused USING (step, attempt) ORDER BY step
