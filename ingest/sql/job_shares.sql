-- What the time of all ranks together went to in each step, as shares of their step windows.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: step  optimizer step
-- column: compute_ratio  compute, 0 to 1
-- column: data_wait_ratio  blocked on the next batch
-- column: exposed_comm_ratio  communication not hidden by compute
-- column: tp_ratio  of the tensor axis, not hidden by compute
-- column: pp_ratio  of the pipeline
-- column: dp_ratio  of the data-parallel axes
-- column: ep_ratio  of the expert axis
-- column: other_comm_ratio  of other groups
-- column: bubble_ratio  idle in recorded time: the next three together; NULL where clocks are not aligned
--   or members are missing
-- column: schedule_ratio  schedule bubble: waiting in communication although no single rank arrived last
-- column: waiting_ratio  waiting for a late last arriver, of this or another stage
-- column: bubble_other_ratio  host: gc, checkpoint, host code, copies
-- column: not_visible_ratio  nothing was recorded
-- column: num_ranks  ranks that finished the step
-- empty: no step in this range is finished
WITH cells AS (
    SELECT * FROM chosen_steps($attempt)
    WHERE finished AND step >= 0 AND step BETWEEN $step_min AND $step_max AND window_ns > 0
),
-- only steps that some rank has not finished need the join: it costs ten times the sum
open_steps AS (SELECT DISTINCT step FROM chosen_steps($attempt) WHERE NOT finished),
comm AS (
    SELECT step, kind, exposed_ns FROM chosen_kinds($attempt)
    WHERE ends_with(kind, '_comm') AND step BETWEEN $step_min AND $step_max
        AND step NOT IN (SELECT step FROM open_steps)
    UNION ALL
    SELECT k.step, kind, exposed_ns
    FROM (SELECT * FROM chosen_kinds($attempt)
          WHERE ends_with(kind, '_comm') AND step IN (SELECT step FROM open_steps)) k
        JOIN (SELECT attempt, rank, step FROM cells) USING (attempt, rank, step)
),
axes AS (
    SELECT step, sum(exposed_ns) FILTER (WHERE kind = 'tp_comm') AS tp_ns,
        sum(exposed_ns) FILTER (WHERE kind = 'pp_comm') AS pp_ns,
        sum(exposed_ns) FILTER (WHERE kind = 'dp_comm') AS dp_ns,
        sum(exposed_ns) FILTER (WHERE kind = 'ep_comm') AS ep_ns,
        sum(exposed_ns) FILTER (WHERE kind IN ('cp_comm', 'other_comm')) AS other_ns
    FROM comm GROUP BY step
),
sums AS (
    SELECT step, sum(window_ns) AS total_ns, sum(compute_ns) AS compute_ns,
        sum(data_wait_ns) AS data_ns, sum(exposed_comm_ns) AS comm_ns, sum(bubble_ns) AS bubble_ns,
        sum(bubble_late_ns) AS late_ns, sum(bubble_other_ns) AS host_ns, sum(window_ns) FILTER (WHERE bubble_ns IS NOT NULL) AS known_ns,
        sum(window_ns - covered_ns) AS unseen_ns, count(*) AS num_ranks
    FROM cells GROUP BY step
)
SELECT step, compute_ns / total_ns AS compute_ratio, data_ns / total_ns AS data_wait_ratio,
    comm_ns / total_ns AS exposed_comm_ratio, coalesce(tp_ns, 0) / total_ns AS tp_ratio,
    coalesce(pp_ns, 0) / total_ns AS pp_ratio, coalesce(dp_ns, 0) / total_ns AS dp_ratio,
    coalesce(ep_ns, 0) / total_ns AS ep_ratio, coalesce(other_ns, 0) / total_ns AS other_comm_ratio,
    bubble_ns / nullif(known_ns, 0) AS bubble_ratio,
    greatest(bubble_ns - late_ns - host_ns, 0) / nullif(known_ns, 0) AS schedule_ratio, late_ns / nullif(known_ns, 0) AS waiting_ratio,
    host_ns / nullif(known_ns, 0) AS bubble_other_ratio,
    unseen_ns / total_ns AS not_visible_ratio, num_ranks
FROM sums LEFT JOIN axes USING (step) ORDER BY step
