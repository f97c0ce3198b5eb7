-- What an average step of each rank went to, in parts that add up to its step time.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: pp  pipeline stage; NULL unknown
-- column: step_ms  mean step time, ms
-- column: compute_ms  forward, backward, wgrad, optimizer (or kernels), ms
-- column: data_wait_ms  blocked on the next batch, ms
-- column: tp_ms  tensor-parallel communication not hidden by compute, ms. Where the bubble is known,
--   waiting is left out of all communication columns, and what remains is divided among the axes in
--   proportion to exposed time minus waiting
-- column: pp_ms  pipeline communication not hidden by compute, ms
-- column: dp_ms  communication of the data-parallel axes not hidden by compute, ms
-- column: ep_ms  expert-parallel communication not hidden by compute, ms
-- column: other_comm_ms  communication of other groups not hidden by compute, ms
-- column: waiting_ms  idle: waiting for a late last arriver, of this or another stage, ms; 0 where unknown
-- column: schedule_ms  bubble: waiting although no single rank arrived last, ms; 0 where unknown
-- column: other_ms  idle: host work (gc, checkpoint, host code, copies), ms
-- column: not_visible_ms  nothing was recorded: idle or not, ms
-- column: bubble_known  whether waiting could be separated from communication in all steps
-- column: num_steps  steps averaged
-- empty: no step in this range is finished
WITH cells AS (
    SELECT * FROM chosen_steps($attempt)
    WHERE finished AND step >= 0 AND step BETWEEN $step_min AND $step_max AND window_ns > 0
),
wanted AS (
    SELECT attempt, rank, sum(window_ns) AS window_ns, sum(compute_ns) AS compute_ns,
        sum(data_wait_ns) AS data_ns, sum(covered_ns) AS covered_ns,
        coalesce(sum(bubble_ns), 0) AS bubble_ns, coalesce(sum(bubble_late_ns), 0) AS late_ns,
        coalesce(sum(bubble_other_ns), 0) AS rest_ns, count(bubble_ns) = count(*) AS known,
        greatest(sum(if(bubble_ns IS NULL, exposed_comm_ns,
            covered_ns - bubble_ns - compute_ns - data_wait_ns)), 0) AS moving_ns,
        count(*) AS num
    FROM cells GROUP BY attempt, rank
),
waits AS (
    SELECT c.attempt, c.rank, sum(wait_ns) AS wait_ns,
        if(g.axis IN ('tp', 'pp', 'dp', 'ep', 'cp'), g.axis, 'other') AS axis
    FROM chosen_collectives($attempt) c JOIN (SELECT attempt, rank, step FROM cells)
        USING (attempt, rank, step)
        LEFT JOIN group_members g USING (attempt, group_id)
    GROUP BY ALL
),
exposed AS (
    SELECT k.attempt, k.rank, replace(kind, '_comm', '') AS axis, sum(exposed_ns) AS exposed_ns
    FROM chosen_kinds($attempt) k JOIN (SELECT attempt, rank, step FROM cells)
        USING (attempt, rank, step)
    WHERE ends_with(kind, '_comm') GROUP BY ALL
),
weights AS (
    SELECT e.attempt, e.rank, e.axis, greatest(exposed_ns - coalesce(wait_ns, 0), 0) + 1 AS weight
    FROM exposed e LEFT JOIN waits w USING (attempt, rank, axis)
),
parts AS (
    SELECT attempt, rank, sum(weight) AS total,
        coalesce(sum(weight) FILTER (WHERE axis = 'tp'), 0) AS tp,
        coalesce(sum(weight) FILTER (WHERE axis = 'pp'), 0) AS pp,
        coalesce(sum(weight) FILTER (WHERE axis = 'dp'), 0) AS dp,
        coalesce(sum(weight) FILTER (WHERE axis = 'ep'), 0) AS ep
    FROM weights GROUP BY attempt, rank
),
per_rank AS (
    SELECT w.*, r.pp AS stage, w.moving_ns / p.total AS unit_ns, p.total, p.tp, p.pp, p.dp, p.ep,
        greatest(covered_ns - compute_ns - data_ns - moving_ns - (bubble_ns - rest_ns), 0) AS left_ns
    FROM wanted w LEFT JOIN parts p USING (attempt, rank) LEFT JOIN ranks r USING (attempt, rank)
)
SELECT rank, arg_max(stage, attempt) AS pp, sum(window_ns) / sum(num) / 1e6 AS step_ms,
    sum(compute_ns) / sum(num) / 1e6 AS compute_ms, sum(data_ns) / sum(num) / 1e6 AS data_wait_ms,
    coalesce(sum(unit_ns * tp), 0) / sum(num) / 1e6 AS tp_ms,
    coalesce(sum(unit_ns * pp), 0) / sum(num) / 1e6 AS pp_ms,
    coalesce(sum(unit_ns * dp), 0) / sum(num) / 1e6 AS dp_ms,
    coalesce(sum(unit_ns * ep), 0) / sum(num) / 1e6 AS ep_ms,
    sum(coalesce(unit_ns * (total - tp - pp - dp - ep), moving_ns)) / sum(num) / 1e6 AS other_comm_ms,
    sum(late_ns) / sum(num) / 1e6 AS waiting_ms,
    sum(bubble_ns - late_ns - rest_ns) / sum(num) / 1e6 AS schedule_ms,
    sum(left_ns) / sum(num) / 1e6 AS other_ms,
    sum(window_ns - covered_ns) / sum(num) / 1e6 AS not_visible_ms, bool_and(known) AS bubble_known,
    CAST(sum(num) AS BIGINT) AS num_steps
FROM per_rank GROUP BY rank ORDER BY rank
