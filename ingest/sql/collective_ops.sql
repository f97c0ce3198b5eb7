-- How long each operation of communication takes per step on some ranks of each pipeline stage (the
-- first and the last), over the newest 200 of the steps: which of them became slower. The time that
-- data moves is that of the member which waits least, so clocks need not be aligned.
-- reads: collectives
-- param: step_min int = 0 first step wanted
-- param: step_max int = 9223372036854775806 last step wanted
-- param: attempt int = newest
-- column: axis  tp, pp, dp, ep or other
-- column: op  operation
-- column: moving_ms  shortest time of any member, summed over a step, mean over these ranks and steps, ms
-- column: own_ms  time of the rank itself, waiting included, ms
-- column: num_per_step  how many there are in a step of a rank
-- empty: no completed collective was recorded in these steps
WITH chosen AS (
    SELECT unnest([min(rank), max(rank)]) AS rank FROM ranks WHERE attempt = $attempt
    GROUP BY pp ORDER BY 1 LIMIT 16
),
newest AS (
    SELECT DISTINCT step FROM step_rollup
    WHERE attempt = $attempt AND finished AND step BETWEEN $step_min AND $step_max AND step >= 0
    ORDER BY step DESC LIMIT 200
),
elsewhere AS (
    SELECT group_id FROM group_members
    WHERE attempt = $attempt AND NOT list_has_any(ranks, (SELECT list(rank) FROM chosen))
),
training AS (
    SELECT * FROM collectives_of_steps($collectives, $attempt, $step_min, $step_max)
        ANTI JOIN elsewhere USING (group_id)
    WHERE step IN (FROM newest)
),
ended AS (
    SELECT rank, step, group_id, seq, op, tag, greatest(end_ns - start_ns, 0) AS dur_ns,
        CASE WHEN coalesce(peer, -1) < 0 THEN -1 WHEN contains(op, 'send') THEN rank ELSE peer END AS src,
        CASE WHEN coalesce(peer, -1) < 0 THEN -1 WHEN contains(op, 'send') THEN peer ELSE rank END AS dst
    FROM training WHERE end_ns >= start_ns AND start_ns >= 0
),
shortest AS (
    SELECT *, min(dur_ns) OVER (PARTITION BY group_id, seq, src, dst, tag) AS least_ns FROM ended
),
cells AS (
    SELECT count(*) AS num FROM step_rollup
    WHERE attempt = $attempt AND finished AND step IN (FROM newest) AND rank IN (FROM chosen)
)
SELECT if(axis IN ('tp', 'pp', 'dp', 'ep'), axis, 'other') AS axis, op,
    sum(least_ns) / any_value(num) / 1e6 AS moving_ms, sum(dur_ns) / any_value(num) / 1e6 AS own_ms,
    count(*) / any_value(num) AS num_per_step
FROM shortest LEFT JOIN (SELECT group_id, axis FROM group_members WHERE attempt = $attempt) g
    USING (group_id), cells
WHERE rank IN (FROM chosen)
GROUP BY ALL ORDER BY moving_ms DESC, axis, op
