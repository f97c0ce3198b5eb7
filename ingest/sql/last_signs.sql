-- When each rank last reported: whether one fell silent while the others continued.
-- reads: heartbeats, marks, entered
-- param: attempt int = newest
-- column: rank  global rank
-- column: host  where it runs; NULL unknown
-- column: last_ns  its last heartbeat, Unix ns on the aligned clock where there is one
-- column: status  how it ended: finished, failed, stopped; NULL while it runs or if it was killed
-- column: error  what ended it; NULL none
-- column: last_step  its last finished step, or the one before that in which it entered a collective
--   last; NULL none
-- column: is_lost  whether the watchdog of its host reported it gone
-- column: lost_text  what the watchdog reported; NULL nothing
-- column: publish_every_ns  how much later than written its rows may reach the run folder, ns; NULL unknown
-- empty: no heartbeats: the run was imported or has only just begun
WITH beats AS (
    SELECT rank, max(ts_ns) AS ts_ns FROM rows_of($heartbeats) WHERE attempt = $attempt
    GROUP BY rank
),
lost AS (
    SELECT rank, arg_max(text, ts_ns) AS text FROM rows_of($marks)
    WHERE attempt = $attempt AND kind = 'lost' GROUP BY rank
),
began AS (
    SELECT rank, max(step) AS step FROM rows_of($entered) WHERE attempt = $attempt GROUP BY rank
),
clocks AS (
    SELECT rank, arg_max(offset_ns, valid_from_ns) AS offset_ns FROM clock_offsets
    WHERE attempt = $attempt GROUP BY rank
),
done AS (
    SELECT rank, max(step) AS last_step FROM step_rollup
    WHERE attempt = $attempt AND finished AND step >= 0 GROUP BY rank
)
SELECT b.rank, nullif(r.host, '') AS host, b.ts_ns + coalesce(c.offset_ns, 0) AS last_ns, r.status,
    nullif(r.error, '') AS error, greatest(d.last_step, e.step - 1) AS last_step, t.rank IS NOT NULL AS is_lost,
    t.text AS lost_text, r.publish_every_ns
FROM beats b LEFT JOIN clocks c USING (rank) LEFT JOIN done d USING (rank)
LEFT JOIN began e USING (rank)
LEFT JOIN lost t USING (rank) LEFT JOIN (SELECT * FROM ranks WHERE attempt = $attempt) r
    USING (rank)
ORDER BY b.rank
