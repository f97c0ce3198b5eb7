-- Idle time of each rank inside covered time: step window minus compute, data and transfer. Waiting
-- for a late last arriver counts as waiting for a rank, the other waiting as caused by the schedule.
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = null which attempt; default: the newest attempt of each step
-- column: rank  global rank
-- column: pp  pipeline stage; NULL unknown
-- column: bubble_ms  mean per step, ms; NULL where clocks are not aligned or members are missing
-- column: waiting_ms  of it waiting for a late last arriver, ms
-- column: schedule_ms  of it other waiting in communication, ms
-- column: other_ms  of it gc, checkpoint, host code, copies: not compute, though no waiting, ms
-- column: bubble_ratio  bubble / step windows
-- column: num_steps  steps with a known bubble
-- empty: no step in this range has data
SELECT s.rank, arg_max(r.pp, s.attempt) AS pp, avg(bubble_ns) / 1e6 AS bubble_ms,
    avg(bubble_late_ns) / 1e6 AS waiting_ms,
    avg(bubble_ns - bubble_late_ns - bubble_other_ns) / 1e6 AS schedule_ms,
    avg(bubble_other_ns) / 1e6 AS other_ms,
    sum(bubble_ns) / nullif(sum(window_ns) FILTER (WHERE bubble_ns IS NOT NULL), 0) AS bubble_ratio,
    count(bubble_ns) AS num_steps
FROM chosen_steps($attempt) s LEFT JOIN ranks r USING (attempt, rank)
WHERE step BETWEEN $step_min AND $step_max AND step >= 0 AND finished
GROUP BY s.rank ORDER BY s.rank
