-- Every rank with its coordinates in the parallel layout, with its mean metrics over some steps.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: pp  pipeline stage; NULL unknown
-- column: dp  replica; NULL unknown
-- column: cp  index on the context axis; NULL unknown or none
-- column: tp  index on the tensor axis; NULL unknown
-- column: host  where it runs
-- column: step_ms  mean step time, ms
-- column: compute_ms  mean compute, ms
-- column: exposed_comm_ms  mean communication not hidden by compute, ms
-- column: data_wait_ms  mean time blocked on data, ms
-- column: bubble_ms  mean bubble, ms; NULL where unknown
-- column: not_visible_ratio  share of the step windows nothing recorded
-- column: wait_caused_ms  what it made others wait in any group, also by the pipeline's schedule,
--   summed over the steps, rank-ms; NULL unknown
-- column: num_steps  steps averaged
-- empty: no step in this range is finished
WITH cells AS (
    SELECT * FROM chosen_steps($attempt) WHERE step BETWEEN $step_min AND $step_max AND finished
),
caused AS (
    SELECT attempt, rank, sum(wait_caused_ns) AS wait_caused_ns
    FROM chosen_collectives($attempt) WHERE step BETWEEN $step_min AND $step_max
    GROUP BY attempt, rank
),
caused_by_rank AS (SELECT rank, sum(wait_caused_ns) AS wait_caused_ns FROM caused GROUP BY rank)
SELECT c.rank, arg_max(r.pp, c.attempt) AS pp, arg_max(r.dp, c.attempt) AS dp,
    arg_max(r.cp, c.attempt) AS cp, arg_max(r.tp, c.attempt) AS tp,
    arg_max(r.host, c.attempt) AS host, avg(window_ns) / 1e6 AS step_ms,
    avg(compute_ns) / 1e6 AS compute_ms, avg(exposed_comm_ns) / 1e6 AS exposed_comm_ms,
    avg(data_wait_ns) / 1e6 AS data_wait_ms, avg(bubble_ns) / 1e6 AS bubble_ms,
    1 - sum(covered_ns) / greatest(sum(window_ns), 1) AS not_visible_ratio,
    max(w.wait_caused_ns) / 1e6 AS wait_caused_ms, count(*) AS num_steps
FROM cells c LEFT JOIN ranks r USING (attempt, rank) LEFT JOIN caused_by_rank w USING (rank)
GROUP BY c.rank ORDER BY c.rank
