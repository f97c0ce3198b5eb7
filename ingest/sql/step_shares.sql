-- What some ranks spent their steps on, by kind, summed over one or several steps: for pictures of more
-- time than can be drawn span by span.
-- param: ranks text required  global ranks, comma-separated
-- param: from_ns int = -9223372036854775807 steps that end after this, Unix ns on the rank's clock
-- param: to_ns int = 9223372036854775807 and begin before this
-- param: pool int = 1 over how many step numbers to sum
-- param: attempt int = newest
-- column: rank  global rank
-- column: step  first step of the pool
-- column: begin_ns  begin of the pool, aligned Unix ns; own clock where the offset is unknown
-- column: end_ns  its end
-- column: kind  a span kind, or waiting (for a late rank), bubble (other waiting), not_visible
-- column: time_ns  time of that kind, ns
-- column: num_spans  spans of that kind that began there; 0 for what is no span
-- empty: none of the ranks has steps there
WITH cells AS (
    SELECT rank, step, step // $pool AS pool, begin_ns, end_ns, window_ns - covered_ns AS hidden_ns,
        coalesce(bubble_late_ns, 0) AS late_ns,
        coalesce(bubble_ns - bubble_late_ns - bubble_other_ns, 0) AS schedule_ns
    FROM step_rollup
    WHERE attempt = $attempt AND end_ns > $from_ns AND begin_ns < $to_ns
        AND rank IN (SELECT CAST(unnest(string_split($ranks, ',')) AS INTEGER))
),
pools AS (
    SELECT rank, pool, min(step) AS step, min(begin_ns) AS begin_ns, max(end_ns) AS end_ns,
        sum(hidden_ns) AS hidden_ns, sum(late_ns) AS late_ns, sum(schedule_ns) AS schedule_ns
    FROM cells GROUP BY rank, pool
),
placed AS (
    SELECT p.*, coalesce(
        o.offset_ns + CAST(o.drift_ppb * ((p.begin_ns - o.ts_ns) / 1e9) AS BIGINT), 0) AS shift_ns
    FROM pools p ASOF LEFT JOIN (SELECT * FROM clock_offsets WHERE attempt = $attempt) o
        ON p.rank = o.rank AND p.begin_ns >= o.valid_from_ns
),
kinds AS (
    SELECT k.rank, c.pool, k.kind, sum(k.time_ns) AS time_ns, sum(k.num_spans) AS num_spans
    FROM kind_rollup k JOIN cells c USING (rank, step)
    WHERE k.attempt = $attempt GROUP BY k.rank, c.pool, k.kind
    UNION ALL SELECT rank, pool, 'waiting', late_ns, 0 FROM pools WHERE late_ns > 0
    UNION ALL SELECT rank, pool, 'bubble', schedule_ns, 0 FROM pools WHERE schedule_ns > 0
    UNION ALL SELECT rank, pool, 'not_visible', hidden_ns, 0 FROM pools WHERE hidden_ns > 0
)
SELECT p.rank, p.step, p.begin_ns + p.shift_ns AS begin_ns, p.end_ns + p.shift_ns AS end_ns, k.kind,
    CAST(k.time_ns AS BIGINT) AS time_ns, CAST(k.num_spans AS BIGINT) AS num_spans
FROM placed p JOIN kinds k USING (rank, pool) ORDER BY p.rank, p.step, k.kind
