-- Step windows of a band of ranks: end of the previous step to end of this one. Where the previous
-- step is not there, or times are relative to each step, a window begins where its step does.
WITH placed AS (
    SELECT rank, step, start_ns, start_ns + dur_ns AS end_ns,
        max(start_ns + dur_ns) OVER before AS past_ns,
        max(step) OVER before AS past_step
    FROM step_rows
    WHERE attempt = $attempt AND rank BETWEEN $rank_min AND $rank_max
        AND step BETWEEN $step_min - 1 AND $step_max + 1
    WINDOW before AS (PARTITION BY rank ORDER BY step ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT rank, step,
    CASE WHEN $relative OR past_ns IS NULL THEN start_ns
         WHEN past_step = step - 1 THEN past_ns
         ELSE greatest(start_ns, past_ns) END AS begin_ns,
    greatest(end_ns, begin_ns) AS end_ns
FROM placed ORDER BY rank, step
